// The drawing of a heat map: cells, contours with labels, colour bar, marker.
import { isNumber, makeScale, axisTicks, plainNumber } from './axis.js';
import { svgNode, px, uniqueSvgId, LabelPlacer } from './svg.js';
import { layoutFrame, drawAxes } from './frame.js';
import { heatColor, contourLines } from './contour.js';

const COLOR_LEVELS = 128;
const BAR_SIZE = 14;
const LABEL_GAP = 3; // px between the label of a contour and its line

export function heatIds() {
  return { clip: uniqueSvgId('heat-clip'), hatch: uniqueSvgId('heat-hatch'), bar: uniqueSvgId('heat-bar') };
}

export function sortedPair(one, other) {
  return one < other ? [one, other] : [other, one];
}

// Borders of cells half way between their centres, on the scale of the axis.
function cellEdges({ scale, values }) {
  if (!values.length) return scale === 'log' ? [0.1, 1] : [0, 1];
  const log = scale === 'log';
  const centres = values.map(value => (log ? Math.log10(value) : value));
  const last = centres.length - 1;
  const edges = centres.slice(1).map((centre, index) => (centre + centres[index]) / 2);
  const [first, end] = last ? [(centres[1] - centres[0]) / 2, (centres[last] - centres[last - 1]) / 2] : [0.1, 0.1];
  return [centres[0] - first, ...edges, centres[last] + end].map(edge => (log ? 10 ** edge : edge));
}

// The colour of a value. In a diverging palette the neutral colour is 0 (1 on a log scale) and both
// sides count alike.
function colorRule(spec) {
  const log = spec.colorScale === 'log';
  const seen = spec.values.flat().filter(value => isNumber(value) && (!log || value > 0));
  const known = Boolean(spec.range) || seen.length > 0;
  let range = spec.range || [Math.min(...seen), Math.max(...seen)];
  if (!known) range = log ? [0.1, 1] : [0, 1];
  if (range[0] === range[1]) {
    const pad = Math.abs(range[0] || 1) * 0.1;
    range = log ? [range[0] / 1.1, range[1] * 1.1] : [range[0] - pad, range[1] + pad];
  }
  const scale = makeScale(spec.colorScale, range, [0, 1]);
  let share = value => scale.toPixel(value);
  if (spec.palette !== 'sequential') {
    // log10(1) is 0: on both scales the neutral value has the coordinate 0
    const reach = Math.max(Math.abs(scale.unit(scale.low)), Math.abs(scale.unit(scale.high))) || 1;
    share = value => 0.5 + (0.5 * scale.unit(value)) / reach;
  }
  return { scale, known, color: value => heatColor(spec.palette, share(value)), share };
}

export function drawHeat(pen, layer, spec, width, height, ids) {
  const rule = colorRule(spec);
  const narrow = width < 480;
  const line = pen.size * 1.3;
  const titles = pen.wrap(spec.title, width - 8, pen.size, 600);
  const [xEdges, yEdges] = [cellEdges(spec.x), cellEdges(spec.y)];
  const range = edges => sortedPair(edges[0], edges[edges.length - 1]);
  const frame = layoutFrame(pen, {
    width, height, above: titles.length ? titles.length * line + 4 : 0, least: 160,
    rightOf: narrow ? 0 : barRoom(pen, spec, rule, height), below: narrow ? BAR_SIZE + 14 + pen.small * 1.3 : 0,
    x: { ...spec.x, range: range(xEdges) }, y: { ...spec.y, range: range(yEdges) },
  });
  frame.xEdges = xEdges.map(frame.xScale.toPixel);
  frame.yEdges = yEdges.map(frame.yScale.toPixel);
  const widest = Math.max(0, ...titles.map(text => pen.width(text, pen.size, 600)));
  const start = narrow || frame.left + widest > width ? 1 : frame.left;
  titles.forEach((text, index) => pen.text(layer, start, pen.size + line * index, text, { weight: 600 }));
  drawDefinitions(pen, layer, spec, rule, frame, ids);
  const inside = svgNode('g', { 'clip-path': `url(#${ids.clip})` }, layer);
  drawCells(inside, spec, rule, frame, ids.hatch);
  drawContours(pen.onColors(), inside, layer, spec, rule, frame);
  drawAxes(pen, layer, frame);
  if (rule.known) drawColorBar(pen, layer, spec, rule, frame, ids.bar);
  if (spec.marker) drawHeatMarker(pen.onColors(), layer, frame, spec.marker);
  return frame;
}

function barTicks(pen, spec, rule, pixels, narrow) {
  const scale = makeScale(spec.colorScale, [rule.scale.low, rule.scale.high], pixels);
  const extent = narrow ? text => pen.width(text, pen.small) + pen.size : () => pen.size * 1.7;
  return axisTicks(scale, extent).major.map(tick => ({ ...tick, at: scale.toPixel(tick.value) }));
}

function barRoom(pen, spec, rule, height) {
  // how high the bar will be is not known yet, and other heights have other ticks: take the widest
  const ticks = [0.5, 0.6, 0.7, 0.8, 0.9, 1].flatMap(share => barTicks(pen, spec, rule, [0, height * share], false));
  return Math.ceil(Math.max(20, ...ticks.map(tick => pen.width(tick.text, pen.small))) + BAR_SIZE + 18);
}

function drawDefinitions(pen, layer, spec, rule, frame, ids) {
  const defs = svgNode('defs', null, layer);
  const { left, right, top, bottom, narrow } = frame;
  const clip = svgNode('clipPath', { id: ids.clip }, defs);
  svgNode('rect', { x: left, y: top, width: right - left, height: bottom - top }, clip);
  const hatch = svgNode('pattern', { id: ids.hatch, width: 8, height: 8, patternUnits: 'userSpaceOnUse' }, defs);
  svgNode('path', { d: 'M-2 2L2 -2M-2 10L10 -2M6 10L10 6', stroke: pen.paint('grid'), 'stroke-width': 1 }, hatch);
  const turned = narrow ? { x1: 0, x2: 1, y1: 0, y2: 0 } : { x1: 0, x2: 0, y1: 1, y2: 0 };
  const bar = svgNode('linearGradient', { id: ids.bar, ...turned }, defs);
  for (let index = 0; index <= 32; index += 1) {
    const color = rule.color(rule.scale.toValue(index / 32));
    svgNode('stop', { offset: String(index / 32), 'stop-color': color }, bar);
  }
}

// One path per colour level instead of one rectangle per cell: fast, and still vectors in a saved
// file.
function drawCells(parent, spec, rule, frame, hatch) {
  const paths = new Map();
  const { xEdges, yEdges } = frame;
  spec.y.values.forEach((_, row) => {
    const cells = spec.values[row] || [];
    const [top, bottom] = [px(yEdges[row]), px(yEdges[row + 1])];
    spec.x.values.forEach((__, column) => {
      const value = cells[column];
      const level = rule.scale.drawable(value) ? levelOf(rule.share(value)) : -1;
      const d = `M${px(xEdges[column])} ${top}H${px(xEdges[column + 1])}V${bottom}H${px(xEdges[column])}Z`;
      paths.set(level, (paths.get(level) || '') + d);
    });
  });
  for (const [level, d] of paths) {
    const fill = level < 0 ? `url(#${hatch})` : heatColor(spec.palette, level / (COLOR_LEVELS - 1));
    svgNode('path', { d, fill, 'shape-rendering': 'crispEdges' }, parent);
  }
}

function levelOf(share) {
  return Math.round(Math.max(0, Math.min(1, share)) * (COLOR_LEVELS - 1));
}

function drawContours(pen, inside, layer, spec, rule, frame) {
  const xs = spec.x.values.map(frame.xScale.toPixel);
  const ys = spec.y.values.map(frame.yScale.toPixel);
  const room = { left: frame.left + 4, right: frame.right - 4, top: frame.top + 4, bottom: frame.bottom - 4 };
  const placer = new LabelPlacer(room, []);
  const { marker } = spec;
  if (marker && frame.xScale.drawable(marker.x) && frame.yScale.drawable(marker.y)) {
    const [x, y] = [frame.xScale.toPixel(marker.x), frame.yScale.toPixel(marker.y)];
    placer.boxes.push({ x: x - 11, y: y - 11, width: 22, height: 22 });
  }
  const found = spec.contours.map(contour => (
    { contour, lines: contourLines(spec.values, xs, ys, contour.value, rule.scale.unit) }));
  for (const { contour, lines } of found) {
    if (!lines.length) continue;
    const label = contour.label === undefined ? plainNumber(contour.value) : contour.label;
    placer.dots = found.filter(other => other.contour !== contour).flatMap(other => other.lines.flat());
    const box = label ? drawContourLabel(pen, layer, placer, lines, label) : null;
    const d = lines.map(line => pathAround(line, box)).join('');
    const style = { d, fill: 'none', 'stroke-linejoin': 'round' };
    svgNode('path', { ...style, stroke: pen.paint('panel'), 'stroke-opacity': 0.55, 'stroke-width': 4 }, inside);
    svgNode('path', {
      ...style, stroke: pen.paint(contour.color || 'black'), 'stroke-width': 1.75,
      'stroke-dasharray': contour.dash || null,
    }, inside);
  }
}

// A line that stops where its label stands and goes on behind it.
function pathAround(line, box) {
  const isFree = ([x, y]) => !box || x < box.x - LABEL_GAP || x > box.x + box.width + LABEL_GAP
    || y < box.y - LABEL_GAP || y > box.y + box.height + LABEL_GAP;
  let d = '';
  let on = false;
  const add = place => {
    const free = isFree(place);
    if (free) d += `${on ? 'L' : 'M'}${px(place[0])} ${px(place[1])}`;
    on = free;
  };
  line.forEach(([x, y], index) => {
    const [fromX, fromY] = line[Math.max(0, index - 1)];
    const length = Math.hypot(x - fromX, y - fromY);
    // only pieces near the label are cut up
    const near = box && [x, fromX].some(at => Math.abs(at - box.x - box.width / 2) < box.width / 2 + length + LABEL_GAP)
      && [y, fromY].some(at => Math.abs(at - box.y - box.height / 2) < box.height / 2 + length + LABEL_GAP);
    const cuts = near ? Math.max(1, Math.ceil(length / 2)) : 1;
    for (let cut = index ? 1 : cuts; cut <= cuts; cut += 1) {
      add([fromX + ((x - fromX) * cut) / cuts, fromY + ((y - fromY) * cut) / cuts]);
    }
  });
  return d;
}

// On the longest piece, as near to its middle as the frame and the other labels allow.
function drawContourLabel(pen, layer, placer, lines, label) {
  const longest = lines.reduce((best, line) => (line.length > best.length ? line : best));
  const text = pen.shorten(label, (placer.frame.right - placer.frame.left) * 0.7, pen.small, 600);
  const [width, height] = [pen.width(text, pen.small, 600), pen.small * 1.2];
  const candidates = [0.5, 0.4, 0.6, 0.3, 0.7, 0.2, 0.8, 0.1, 0.9, 0, 1].flatMap(share => {
    const [x, y] = longest[Math.round(share * (longest.length - 1))];
    const top = y - height / 2;
    return [{ x: x - width / 2, y: top, width, height }];
  });
  const box = placer.place(candidates);
  pen.text(layer, box.x, box.y + pen.small * 0.95, text, { size: pen.small, weight: 600, halo: true });
  return box;
}

function drawColorBar(pen, layer, spec, rule, frame, gradient) {
  const { left, right, top, bottom, narrow, height } = frame;
  const small = pen.small;
  const place = narrow
    ? { x: left, y: height - BAR_SIZE - 8 - small * 1.2, width: right - left, height: BAR_SIZE }
    : { x: right + 14, y: top, width: BAR_SIZE, height: bottom - top };
  svgNode('rect', { ...place, fill: `url(#${gradient})`, stroke: pen.paint('soft'), 'stroke-width': 1 }, layer);
  for (const { at, text } of barTicks(pen, spec, rule, narrow ? [left, right] : [bottom, top], narrow)) {
    if (narrow) {
      const half = pen.width(text, small) / 2;
      const x = Math.max(half + 1, Math.min(frame.width - half - 1, at));
      svgNode('path', { d: `M${px(at)} ${px(place.y + BAR_SIZE)}v4`, stroke: pen.paint('soft') }, layer);
      pen.text(layer, x, height - 3, text, { anchor: 'middle', size: small });
    } else {
      svgNode('path', { d: `M${px(place.x + BAR_SIZE)} ${px(at)}h4`, stroke: pen.paint('soft') }, layer);
      pen.text(layer, place.x + BAR_SIZE + 7, at + small * 0.35, text, { size: small });
    }
  }
}

function drawHeatMarker(pen, layer, frame, { x, y }) {
  const { xScale, yScale } = frame;
  if (!xScale.drawable(x) || !yScale.drawable(y) || !xScale.has(x) || !yScale.has(y)) return;
  const circle = { cx: xScale.toPixel(x), cy: yScale.toPixel(y), fill: 'none' };
  svgNode('circle', { ...circle, r: 7, stroke: pen.paint('panel'), 'stroke-width': 6 }, layer);
  svgNode('circle', { ...circle, r: 7, stroke: pen.paint('ink'), 'stroke-width': 2.5 }, layer);
}
