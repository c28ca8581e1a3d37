// A chart of lines, points with error bars, histograms and labelled levels, as SVG.
import { plainNumber } from './axis.js';
import { svgNode, setAttributes, uniqueSvgId } from './svg.js';
import { Figure } from './figure.js';
import { layoutFrame, drawGrid, drawAxes, layoutLegend, drawLegend } from './frame.js';
import { fitRange, drawSeries, readAt } from './series.js';
import { HoverBox } from './hoverbox.js';
import { MarkerSlider, drawStillMarker } from './marker.js';

const END_PAD = 8; // px: a symbol at the end of an axis is whole
const EMPTY_CHART = {
  x: { label: '', scale: 'linear', range: [0, 1] }, y: { label: '', scale: 'linear', range: null },
  lines: [], points: [], bars: [], levels: [], verticals: [], bands: [], marker: null, legend: true,
};

export class Chart extends Figure {
  constructor(host, { label = '', onDrag = null, onHover = null } = {}) {
    super(host, label, { role: 'group', 'aria-label': label });
    this.onHover = onHover;
    this.hovered = null;
    this.clip = uniqueSvgId('chart-clip');
    this.slider = new MarkerSlider(this.root, { onDrag, pixelOf: event => this.place(event)[0] });
    this.box = new HoverBox(this.root);
    this.listen();
  }

  update(spec) {
    this.spec = { ...EMPTY_CHART, ...spec };
    this.redraw();
  }

  drawLayer(pen, layer, width, height, isPaper) {
    const spec = this.spec || EMPTY_CHART;
    const frame = drawChart(pen, layer, spec, width, height, isPaper ? uniqueSvgId('chart-clip') : this.clip);
    if (isPaper && spec.marker) drawStillMarker(pen, layer, frame, spec.marker);
    return frame;
  }

  drawn() {
    setAttributes(this.plot, { role: 'img', 'aria-label': this.summary() });
    this.slider.show(this.pen, this.frame, this.spec.marker, this.spec);
    if (this.hovered) this.showHover();
  }

  summary() {
    const { x, y, lines, points, bars } = this.spec;
    const names = [...lines, ...points, ...bars].map(series => series.label).filter(Boolean);
    return `${this.label}. Horizontal axis: ${x.label}. Vertical axis: ${y.label}. ${names.join('; ')}`;
  }

  listen() {
    const hover = event => {
      if (!this.frame || this.slider.active) {
        this.hideHover();
        return;
      }
      const [x, y] = this.place(event);
      const { left, right, top, bottom } = this.frame;
      if (x < left - 4 || x > right + 4 || y < top - 4 || y > bottom + 4) {
        this.hideHover();
        return;
      }
      this.hovered = [x, y];
      this.showHover();
    };
    this.root.addEventListener('pointermove', hover);
    this.root.addEventListener('pointerdown', hover);
    this.root.addEventListener('pointercancel', () => this.hideHover());
    this.root.addEventListener('pointerleave', event => {
      // after a touch the box stays until the next touch elsewhere, a finger would hide it
      // otherwise
      if (event.pointerType !== 'touch') this.hideHover();
    });
    document.addEventListener('pointerdown', event => {
      if (this.hovered && !this.root.contains(event.target)) this.hideHover();
    });
  }

  showHover() {
    const { spec, frame, pen } = this;
    const { x, column, rows } = readAt(spec, frame, this.hovered[0]);
    const span = rows.find(row => row.note);
    const title = [spec.x.label, span ? span.note : plainNumber(x)].filter(Boolean).join(': ');
    const { marker } = spec;
    const isAtMarker = marker && marker.note && Math.abs(frame.xScale.toPixel(marker.x) - column) < 1;
    this.box.show(pen, frame, { title, rows, note: isAtMarker ? marker.note : '' }, column, this.hovered[1]);
    this.box.hair(pen, frame, column, rows);
    if (this.onHover) this.onHover(x);
  }

  hideHover() {
    if (!this.hovered) return;
    this.hovered = null;
    this.box.hide();
    if (this.onHover) this.onHover(null);
  }

  toRows() {
    const rows = [['series', 'x', 'y', 'standard_error', 'model_error']];
    const spec = this.spec || EMPTY_CHART;
    const name = (series, kind, index) => series.label || `${kind} ${index + 1}`;
    spec.lines.forEach((line, index) => {
      const error = at => (line.band ? line.band.error[at] : null);
      line.x.forEach((x, at) => rows.push([name(line, 'line', index), x, line.y[at], null, error(at)]));
    });
    spec.points.forEach((series, index) => {
      series.x.forEach((x, at) => {
        rows.push([name(series, 'points', index), x, series.y[at], series.error ? series.error[at] : null, null]);
      });
    });
    spec.bars.forEach((bars, index) => {
      bars.heights.forEach((height, at) => {
        rows.push([name(bars, 'bars', index), (bars.edges[at] + bars.edges[at + 1]) / 2, height, null, null]);
      });
    });
    spec.levels.forEach((level, index) => rows.push([name(level, 'level', index), null, level.y, null, null]));
    spec.verticals.forEach((rule, index) => rows.push([name(rule, 'vertical', index), rule.x, null, null, null]));
    spec.bands.forEach((band, index) => {
      for (const x of band.x) rows.push([name(band, 'band', index), x, null, null, null]);
    });
    return rows;
  }
}

// Draws everything but the marker and returns the frame; the same for the page and for a file.
function drawChart(pen, layer, spec, width, height, clip) {
  const y = { ...spec.y, range: spec.y.range || fitRange(spec) };
  const narrow = width < 480;
  const legend = layoutLegend(pen, spec.legend ? legendEntries(spec) : [], width - (narrow ? 4 : 90));
  const x = { ...spec.x, pad: spec.bars.length ? 0 : END_PAD };
  const frame = layoutFrame(pen, { width, height, above: legend.height, x, y });
  const { left, right, top, bottom } = frame;
  const clipPath = svgNode('clipPath', { id: clip }, svgNode('defs', null, layer));
  svgNode('rect', { x: left, y: top, width: right - left, height: bottom - top }, clipPath);
  drawGrid(pen, layer, frame);
  frame.labelBoxes = drawSeries(pen, layer, frame, spec, clip);
  drawAxes(pen, layer, frame);
  drawLegend(pen, layer, legend, narrow ? 1 : left);
  return frame;
}

function legendEntries(spec) {
  const of = (series, kind) => series.filter(({ label }) => label).map(one => ({ ...one, kind }));
  // the bands of all lines mean the same: one entry
  const banded = spec.lines.filter(line => line.band).slice(0, 1).map(line => ({ ...line, label: line.band.label }));
  return [...of(spec.lines, 'line'), ...of(banded, 'band'), ...of(spec.points, 'points'), ...of(spec.bars, 'bars'),
    ...of(spec.bands, 'band')];
}
