// The frame of a figure: margins from measured text, grid, ticks, axis labels, and the legend above
// it.
import { makeScale, axisTicks } from './axis.js';
import { svgNode, px } from './svg.js';

const NARROW = 480;
const GLYPH = 28;
export const BAND_OPACITY = 0.25; // seen on white and on dark, and lines seen through it

// Finds the margins. `above`, `rightOf` and `below` are heights and widths kept free for legend,
// title or colour bar. The plot area is at least `least` pixels high: a long legend makes the
// figure higher, not the plot flatter. `x.pad`: pixels between the ends of the x axis and the frame,
// so that first and last points do not lie on it.
export function layoutFrame(pen, { width, height, above = 0, rightOf = 0, below = 0, least = 190, x, y }) {
  const narrow = width < NARROW;
  const line = pen.size * 1.25;
  const pad = x.pad || 0;
  const frame = { width, narrow, above };
  frame.xLabel = pen.wrap(x.label, width - 40, pen.size);
  const bottomSpace = pen.small * 1.2 + 8 + frame.xLabel.length * line + 4 + below;
  // on a phone the y label lies above the frame, a turned one would cost width
  frame.yLabel = pen.wrap(y.label, narrow ? width - 4 : Math.max(least, height - above - bottomSpace) - 4, pen.size);
  frame.top = above + (narrow ? frame.yLabel.length * line + 6 : 0) + pen.small * 0.6;
  frame.height = Math.max(height, frame.top + least + bottomSpace);
  frame.bottom = frame.height - bottomSpace;
  frame.yScale = makeScale(y.scale, y.range, [frame.bottom, frame.top]);
  frame.yTicks = axisTicks(frame.yScale, () => pen.size * 1.7);
  const tickWidth = Math.max(8, ...frame.yTicks.major.map(tick => pen.width(tick.text, pen.small)));
  frame.left = Math.ceil(tickWidth + 9 + (narrow ? 0 : frame.yLabel.length * line + 6));
  frame.right = width - rightOf - 8;
  const extent = text => pen.width(text, pen.small) + pen.size * 0.9;
  // the last label of the x axis may stick out of the frame: keep room for its half
  for (let round = 0; round < 2; round += 1) {
    frame.xScale = makeScale(x.scale, x.range, [frame.left + pad, frame.right - pad]);
    frame.xTicks = axisTicks(frame.xScale, extent);
    let [out, first] = [0, 0];
    for (const tick of frame.xTicks.major) {
      const half = pen.width(tick.text, pen.small) / 2;
      out = Math.max(out, frame.xScale.toPixel(tick.value) + half + 2 - (width - rightOf));
      first = Math.min(first, frame.xScale.toPixel(tick.value) - half - 1);
    }
    if (out <= 0 && first >= 0) break;
    frame.right -= Math.ceil(Math.max(0, out));
    frame.left += Math.ceil(Math.max(0, -first));
  }
  return frame;
}

export function drawGrid(pen, parent, frame) {
  const { xTicks, yTicks } = frame;
  const isMajor = ticks => new Set(ticks.major.map(tick => tick.value));
  const [xMajor, yMajor] = [isMajor(xTicks), isMajor(yTicks)];
  const minor = gridPath(frame, xTicks.minor.filter(v => !xMajor.has(v)), yTicks.minor.filter(v => !yMajor.has(v)));
  const major = gridPath(frame, [...xMajor], [...yMajor]);
  const grid = { fill: 'none', stroke: pen.paint('grid'), 'stroke-width': 1 };
  if (minor) svgNode('path', { ...grid, d: minor, 'stroke-opacity': 0.45 }, parent);
  if (major) svgNode('path', { ...grid, d: major }, parent);
}

function gridPath(frame, xs, ys) {
  const { left, right, top, bottom, xScale, yScale } = frame;
  // half pixels give crisp lines
  const crisp = value => Math.round(value) + 0.5;
  let d = '';
  for (const value of xs) d += `M${crisp(xScale.toPixel(value))} ${px(top)}V${px(bottom)}`;
  for (const value of ys) d += `M${px(left)} ${crisp(yScale.toPixel(value))}H${px(right)}`;
  return d;
}

export function drawAxes(pen, parent, frame) {
  const { left, right, top, bottom, xScale, yScale, xTicks, yTicks } = frame;
  const crisp = value => Math.round(value) + 0.5;
  let d = `M${crisp(left)} ${crisp(top)}H${crisp(right)}V${crisp(bottom)}H${crisp(left)}Z`;
  const small = pen.small;
  for (const { value, text } of xTicks.major) {
    const x = xScale.toPixel(value);
    d += `M${crisp(x)} ${crisp(bottom)}v5`;
    pen.text(parent, x, bottom + 8 + small * 0.82, text, { anchor: 'middle', size: small });
  }
  for (const { value, text } of yTicks.major) {
    const y = yScale.toPixel(value);
    d += `M${crisp(left)} ${crisp(y)}h-5`;
    pen.text(parent, left - 8, y + small * 0.35, text, { anchor: 'end', size: small });
  }
  const line = pen.size * 1.25;
  svgNode('path', { d, fill: 'none', stroke: pen.paint('soft'), 'stroke-width': 1 }, parent);
  // the label is centred below the frame unless that would push it over a border
  frame.xLabel.forEach((text, index) => {
    const half = pen.width(text) / 2;
    const x = Math.max(half + 1, Math.min(frame.width - half - 1, (left + right) / 2));
    pen.text(parent, x, bottom + 8 + small * 1.2 + (index + 0.8) * line, text, { anchor: 'middle' });
  });
  frame.yLabel.forEach((text, index) => {
    if (frame.narrow) {
      pen.text(parent, 1, frame.above + (index + 0.8) * line, text);
      return;
    }
    const half = pen.width(text) / 2;
    const y = Math.max(half + 1, Math.min(frame.height - half - 1, (top + bottom) / 2));
    pen.text(parent, (index + 0.8) * line, y, text, { anchor: 'middle', rotate: -90 });
  });
}

// Legend entries: { kind: 'line'|'points'|'bars'|'band', label, color, dash, width, marker, error
// }, in wrapped rows.
export function layoutLegend(pen, entries, room) {
  const line = pen.size * 1.3;
  const gap = pen.size * 1.4;
  const items = [];
  let [x, y, high] = [0, 0, 0];
  for (const entry of entries) {
    const lines = pen.wrap(entry.label, room - GLYPH - 8, pen.size);
    const width = GLYPH + 7 + Math.max(...lines.map(text => pen.width(text)));
    if (x > 0 && x + width > room) {
      y += high;
      [x, high] = [0, 0];
    }
    items.push({ entry, lines, x, y });
    high = Math.max(high, lines.length * line + 2);
    x += width + gap;
  }
  return { items, height: items.length ? y + high + 6 : 0 };
}

export function drawLegend(pen, parent, legend, left) {
  for (const { entry, lines, x, y } of legend.items) {
    drawGlyph(pen, parent, entry, left + x, y + pen.size * 0.65, GLYPH);
    lines.forEach((text, index) => {
      pen.text(parent, left + x + GLYPH + 7, y + pen.size * (1 + 1.3 * index), text);
    });
  }
}

// The sign of a series, `size` wide, its middle at height y.
export function drawGlyph(pen, parent, entry, x, y, size) {
  const color = pen.paint(entry.color);
  if (entry.kind === 'line') {
    svgNode('path', {
      d: `M${px(x)} ${px(y)}h${size}`, stroke: color, 'stroke-width': entry.width || 2,
      'stroke-dasharray': entry.dash || null, fill: 'none',
    }, parent);
  } else if (entry.kind === 'points') {
    const middle = x + size / 2;
    const reach = Math.min(8, pen.size * 0.55);
    if (entry.error && entry.error.some(error => error > 0)) {
      const bar = errorBarPath(middle, y - reach, y + reach, true, true);
      svgNode('path', { d: bar, stroke: color, 'stroke-width': 1.5 }, parent);
    }
    svgNode('path', { d: symbolPath(entry.marker, middle, y, 4), ...symbolStyle(pen, color) }, parent);
  } else {
    const fill = entry.kind === 'band' ? BAND_OPACITY : 0.35;
    svgNode('rect', {
      x: x + 3, y: y - 5, width: size - 6, height: 10, fill: color, 'fill-opacity': fill,
      stroke: entry.kind === 'band' ? null : color, 'stroke-width': 1.25,
    }, parent);
  }
}

export function symbolStyle(pen, color) {
  return { fill: color, stroke: pen.paint('panel'), 'stroke-width': 1 };
}

export function symbolPath(marker, x, y, size) {
  const [a, b] = [px(x), px(y)];
  if (marker === 'square') return `M${px(x - size)} ${px(y - size)}h${2 * size}v${2 * size}h${-2 * size}Z`;
  if (marker === 'triangle') {
    const reach = size * 1.3;
    return `M${a} ${px(y - reach)}L${px(x + reach)} ${px(y + size)}H${px(x - reach)}Z`;
  }
  if (marker === 'diamond') {
    const reach = size * 1.35;
    return `M${a} ${px(y - reach)}L${px(x + reach)} ${b}L${a} ${px(y + reach)}L${px(x - reach)} ${b}Z`;
  }
  const round = size * 1.08;
  return `M${px(x - round)} ${b}a${px(round)} ${px(round)} 0 1 0 ${px(2 * round)} 0a${px(round)} ${px(round)} 0 1 0 `
    + `${px(-2 * round)} 0Z`;
}

// An end outside the frame gets no cap: the bar goes on.
export function errorBarPath(x, top, bottom, topCap, bottomCap) {
  let d = `M${px(x)} ${px(top)}V${px(bottom)}`;
  if (topCap) d += `M${px(x - 4)} ${px(top)}h8`;
  if (bottomCap) d += `M${px(x - 4)} ${px(bottom)}h8`;
  return d;
}
