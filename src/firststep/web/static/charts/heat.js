// A heat map with contours; a cell is picked by mouse, touch, or arrow keys and Enter.
import { isNumber, plainNumber } from './axis.js';
import { svgNode } from './svg.js';
import { Figure } from './figure.js';
import { HoverBox } from './hoverbox.js';
import { drawHeat, heatIds, sortedPair } from './heatplot.js';

const EMPTY_HEAT = {
  x: { label: '', scale: 'linear', values: [] }, y: { label: '', scale: 'linear', values: [] }, values: [], title: '',
  format: value => plainNumber(value), palette: 'sequential', colorScale: 'linear', range: null, contours: [],
  marker: null,
};

export class HeatMap extends Figure {
  constructor(host, { label = '', onPick = null } = {}) {
    super(host, label, { role: 'application', tabindex: 0, 'aria-roledescription': 'heat map' });
    this.root.setAttribute('aria-label', `${label}. Arrow keys choose a cell, Enter takes it.`);
    this.onPick = onPick;
    this.cell = null;
    this.ids = heatIds();
    this.cursor = svgNode('g', { fill: 'none', visibility: 'hidden', 'pointer-events': 'none' }, this.root);
    this.box = new HoverBox(this.root);
    this.spoken = document.createElement('span');
    this.spoken.setAttribute('aria-live', 'polite');
    // heard, not seen; fixed, so that it never makes the page scroll
    const unseen = { position: 'fixed', width: '1px', height: '1px', overflow: 'hidden', clipPath: 'inset(50%)' };
    Object.assign(this.spoken.style, unseen);
    host.appendChild(this.spoken);
    this.listen();
  }

  update(spec) {
    this.spec = { ...EMPTY_HEAT, ...spec };
    this.redraw();
  }

  drawLayer(pen, layer, width, height, isPaper) {
    return drawHeat(pen, layer, this.spec || EMPTY_HEAT, width, height, isPaper ? heatIds() : this.ids);
  }

  drawn() {
    this.plot.setAttribute('aria-hidden', 'true');
    const { x, y } = this.spec;
    if (this.cell && (this.cell.column >= x.values.length || this.cell.row >= y.values.length)) this.leave();
    if (this.cell) this.showCell();
  }

  listen() {
    this.root.addEventListener('pointermove', event => this.enter(this.cellAt(event)));
    this.root.addEventListener('pointerdown', event => this.enter(this.cellAt(event)));
    this.root.addEventListener('pointerleave', event => event.pointerType === 'touch' || this.leave());
    this.root.addEventListener('pointercancel', () => this.leave());
    this.root.addEventListener('click', event => {
      this.enter(this.cellAt(event));
      this.pick();
    });
    this.root.addEventListener('keydown', event => this.onKey(event));
    this.root.addEventListener('blur', () => this.leave());
    document.addEventListener('pointerdown', event => {
      if (this.cell && !this.root.contains(event.target)) this.leave();
    });
  }

  cellAt(event) {
    if (!this.frame) return null;
    const [x, y] = this.place(event);
    const column = binOf(this.frame.xEdges, x);
    const row = binOf(this.frame.yEdges, y);
    return column < 0 || row < 0 ? null : { column, row };
  }

  enter(cell) {
    if (!cell) {
      this.leave();
      return;
    }
    if (this.cell && this.cell.row === cell.row && this.cell.column === cell.column) return;
    this.cell = cell;
    this.showCell();
  }

  leave() {
    if (!this.cell) return;
    this.cell = null;
    this.box.hide();
    this.cursor.setAttribute('visibility', 'hidden');
  }

  showCell() {
    const { spec, frame, pen, cell: { row, column } } = this;
    const fixed = pen.onColors();
    const [left, right] = sortedPair(frame.xEdges[column], frame.xEdges[column + 1]);
    const [top, bottom] = sortedPair(frame.yEdges[row], frame.yEdges[row + 1]);
    const outline = { x: left, y: top, width: right - left, height: bottom - top };
    // two strokes, so that it shows on every colour
    this.cursor.replaceChildren(
      svgNode('rect', { ...outline, stroke: fixed.paint('panel'), 'stroke-width': 4.5 }),
      svgNode('rect', { ...outline, stroke: fixed.paint('ink'), 'stroke-width': 2 }),
    );
    this.cursor.setAttribute('visibility', 'visible');
    const value = spec.values[row] ? spec.values[row][column] : null;
    const title = spec.title || 'value';
    const rows = [
      { label: spec.x.label, text: plainNumber(spec.x.values[column]) },
      { label: spec.y.label, text: plainNumber(spec.y.values[row]) },
    ];
    const shown = isNumber(value) ? spec.format(value) : 'not computed yet';
    this.box.show(pen, frame, `${title}: ${shown}`, rows, (left + right) / 2, (top + bottom) / 2);
    this.description = `${title}: ${shown}; ${rows.map(({ label, text }) => `${label} ${text}`).join(', ')}`;
  }

  pick() {
    if (!this.cell || !this.onPick) return;
    this.onPick(this.spec.x.values[this.cell.column], this.spec.y.values[this.cell.row]);
  }

  onKey(event) {
    if (!this.frame || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === 'Enter' || event.key === ' ') {
      event.preventDefault();
      this.pick();
      return;
    }
    if (event.key === 'Escape') this.leave();
    const { x, y } = this.spec;
    const [columns, rows] = [x.values.length, y.values.length];
    const step = event.shiftKey ? 5 : 1;
    const right = this.frame.xEdges[columns] > this.frame.xEdges[0] ? step : -step;
    const up = this.frame.yEdges[rows] < this.frame.yEdges[0] ? step : -step;
    const moves = { ArrowRight: [right, 0], ArrowLeft: [-right, 0], ArrowUp: [0, up], ArrowDown: [0, -up] };
    if (!(event.key in moves)) return;
    event.preventDefault();
    const start = this.cell || this.markerCell();
    const [across, along] = this.cell ? moves[event.key] : [0, 0];
    const within = (index, count) => Math.max(0, Math.min(count - 1, index));
    this.enter({ column: within(start.column + across, columns), row: within(start.row + along, rows) });
    this.spoken.textContent = this.description;
  }

  // Keys start at the marker, the first press only shows where one is.
  markerCell() {
    const { spec, frame } = this;
    const bin = (value, scale, edges) => (scale.drawable(value) ? binOf(edges, scale.toPixel(value)) : -1);
    const column = spec.marker ? bin(spec.marker.x, frame.xScale, frame.xEdges) : -1;
    const row = spec.marker ? bin(spec.marker.y, frame.yScale, frame.yEdges) : -1;
    return {
      column: column < 0 ? Math.floor(spec.x.values.length / 2) : column,
      row: row < 0 ? Math.floor(spec.y.values.length / 2) : row,
    };
  }

  toRows() {
    const { x, y, values } = this.spec || EMPTY_HEAT;
    const rows = [['x', 'y', 'value']];
    y.values.forEach((high, row) => {
      x.values.forEach((across, column) => rows.push([across, high, values[row] ? values[row][column] : null]));
    });
    return rows;
  }
}

function binOf(edges, pixel) {
  for (let index = 0; index + 1 < edges.length; index += 1) {
    const [low, high] = sortedPair(edges[index], edges[index + 1]);
    if (pixel >= low && pixel <= high) return index;
  }
  return -1;
}
