// The box that follows the pointer: a title, rows of sign, name and value, and a note. Only this is
// redrawn on a pointer move.
import { svgNode, px } from './svg.js';
import { drawGlyph } from './frame.js';

const PADDING = 9;
const NOTE_WIDTH = 260;

export class HoverBox {
  constructor(parent) {
    this.group = svgNode('g', { 'pointer-events': 'none', visibility: 'hidden', 'aria-hidden': 'true' }, parent);
  }

  hide() {
    this.group.setAttribute('visibility', 'hidden');
    this.group.replaceChildren();
  }

  // rows: [{ kind, label, color, dash, marker, text }] (kind null: no sign); beside: pixel column
  // to stay clear of
  show(pen, frame, { title, rows, note }, beside, y) {
    const { width, height } = frame;
    const group = this.group;
    group.replaceChildren();
    group.setAttribute('visibility', 'visible');
    const size = pen.small;
    const line = size * 1.42;
    const sign = rows.some(row => row.kind) ? 26 : 0;
    const most = Math.min(380, width - 8) - 2 * PADDING;
    const values = Math.max(0, ...rows.map(row => pen.width(row.text, size, 600)));
    const names = Math.max(0, ...rows.map(row => pen.width(row.label || '', size)));
    const room = Math.max(30, Math.min(names, most - sign - values - 14));
    const titles = pen.wrap(title, most, size, 600);
    const broad = Math.max(rows.length ? sign + room + 14 + values : 0, ...titles.map(t => pen.width(t, size, 600)));
    const notes = pen.wrap(note, Math.min(most, Math.max(broad, NOTE_WIDTH)), size);
    const inner = Math.max(broad, ...notes.map(text => pen.width(text, size)));
    const boxWidth = inner + 2 * PADDING;
    const boxHeight = (titles.length + rows.length + notes.length) * line + 2 * PADDING - size * 0.3;
    let left = beside + 14;
    if (left + boxWidth > width - 2) left = beside - 14 - boxWidth;
    let top = Math.max(2, Math.min(height - 2 - boxHeight, y - boxHeight / 2));
    if (left < 2) {
      // no room beside the hair line (a phone): cover the legend, which says the same, rather than
      // the curves
      left = Math.max(2, Math.min(width - 2 - boxWidth, beside - boxWidth / 2));
      top = Math.max(2, frame.top - boxHeight - 6);
    }
    svgNode('rect', {
      x: Math.round(left) + 0.5, y: Math.round(top) + 0.5, width: Math.round(boxWidth), height: Math.round(boxHeight),
      rx: 5, fill: pen.paint('panel'), stroke: pen.paint('soft'), 'stroke-opacity': 0.6,
    }, group);
    let base = top + PADDING + size * 0.85;
    for (const text of titles) {
      pen.text(group, left + PADDING, base, text, { size, weight: 600 });
      base += line;
    }
    for (const row of rows) {
      if (row.kind) drawGlyph(pen, group, row, left + PADDING, base - size * 0.32, 20);
      pen.text(group, left + PADDING + sign, base, pen.shorten(row.label || '', room, size), { size, color: 'soft' });
      pen.text(group, left + boxWidth - PADDING, base, row.text, { size, weight: 600, anchor: 'end' });
      base += line;
    }
    for (const text of notes) {
      pen.text(group, left + PADDING, base, text, { size });
      base += line;
    }
  }

  // A hair line and a dot on each value, under the box.
  hair(pen, frame, column, places) {
    const x = Math.round(column) + 0.5;
    const line = svgNode('path', {
      d: `M${x} ${px(frame.top)}V${px(frame.bottom)}`, stroke: pen.paint('soft'), 'stroke-width': 1,
    });
    this.group.prepend(line);
    for (const { at, color, kind } of places) {
      if (!at || kind !== 'line' || at[1] < frame.top - 1 || at[1] > frame.bottom + 1) continue;
      const dot = { cx: at[0], cy: at[1], r: 3.5, fill: pen.paint(color), stroke: pen.paint('panel') };
      line.after(svgNode('circle', dot));
    }
  }
}
