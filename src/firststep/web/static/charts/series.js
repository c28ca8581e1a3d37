// What is drawn inside the frame of a chart: bands, bars, lines, points, labelled levels; and the
// range that fits them.
import {
  aroundValue, isNumber, isOneValue, plainNumber, numberWithError, makeScale, valueAtPixel,
} from './axis.js';
import { svgNode, px, LabelPlacer } from './svg.js';
import { BAND_OPACITY, symbolPath, symbolStyle, errorBarPath } from './frame.js';

// The y range that shows all lines, points and bars within the x range, and the levels that are
// near them.
export function fitRange(spec) {
  const log = spec.y.scale === 'log';
  const inside = makeScale(spec.x.scale, spec.x.range, [0, 1]).has;
  const seen = [];
  const see = (x, y) => {
    if (isNumber(y) && (!log || y > 0) && (x === null || inside(x))) seen.push(y);
  };
  for (const line of spec.lines) line.x.forEach((x, index) => see(x, line.y[index]));
  for (const series of spec.points) {
    series.x.forEach((x, index) => {
      const y = series.y[index];
      const error = (series.error && series.error[index]) || 0;
      see(x, y);
      see(x, y + error);
      // one noisy point must not open a log axis by decades
      see(x, log ? Math.max(y - error, y / 2) : y - error);
    });
  }
  for (const bars of spec.bars) {
    bars.heights.forEach(height => see(null, height));
    if (!log) see(null, 0);
  }
  if (spec.marker) see(spec.marker.x, spec.marker.y);
  let low = Math.min(...seen);
  let high = Math.max(...seen);
  const [first, last] = [low, high];
  for (const { y } of spec.levels) {
    if (!isNumber(y) || (log && y <= 0)) continue;
    const reach = (last - first) / 2 || Math.abs(last) / 2;
    const near = log ? y >= first / 3 && y <= last * 3 : y >= first - reach && y <= last + reach;
    if (near || !seen.length) [low, high] = [Math.min(low, y), Math.max(high, y)];
  }
  if (!isNumber(low)) return log ? [0.1, 1] : [0, 1];
  if (log) return padLog(low, high);
  // values that are all next to nothing are not blown up to the height of the chart
  const { floor = 0 } = spec.y;
  if (Math.max(Math.abs(low), Math.abs(high)) < floor) return low < 0 ? [-floor, floor] : [0, floor];
  return padLinear(low, high);
}

function padLog(low, high) {
  const ratio = Math.max((high / low) ** 0.06, 1.04);
  return high / low < 1.05 ? [low / 1.2, high * 1.2] : [low / ratio, high * ratio];
}

function padLinear(low, high) {
  if (isOneValue(low, high)) return aroundValue(low, 0.2);
  const pad = 0.06 * (high - low);
  // start at zero when the data nearly do, a floating origin would mislead
  if (low >= 0 && low < 0.25 * high) return [0, high + pad];
  return [low - pad, high + pad];
}

// Draws all series; `clip` is the id of the clip path of the frame. Returns the boxes of the labels
// in it.
export function drawSeries(pen, parent, frame, spec, clip) {
  const inside = svgNode('g', { 'clip-path': `url(#${clip})` }, parent);
  const dots = [];
  for (const band of spec.bands) drawBand(pen, inside, frame, band);
  for (const line of spec.lines) if (line.band) drawLineBand(pen, inside, frame, line);
  for (const bars of spec.bars) drawBars(pen, inside, frame, bars, dots);
  drawRules(pen, inside, frame, spec);
  for (const line of spec.lines) drawLine(pen, inside, frame, line, dots);
  for (const series of spec.points) drawErrors(pen, inside, frame, series);
  // symbols are whole or absent, half a symbol at the border looks like an accident
  for (const series of spec.points) drawSymbols(pen, parent, frame, series, dots);
  return drawRuleLabels(pen, parent, frame, spec, dots);
}

function drawBand(pen, parent, frame, band) {
  const [low, high] = band.x;
  const { xScale, left, right } = frame;
  const start = xScale.drawable(low) ? xScale.toPixel(low) : left;
  const end = xScale.drawable(high) ? xScale.toPixel(high) : right;
  svgNode('rect', {
    x: Math.min(start, end), y: frame.top, width: Math.abs(end - start), height: frame.bottom - frame.top,
    fill: pen.paint(band.color || 'grey'), 'fill-opacity': BAND_OPACITY,
  }, parent);
}

// Where the line may be off: one polygon per run of known edges. It has no say in the range of the
// axis and is cut off at the frame.
function drawLineBand(pen, parent, frame, { x, band, color }) {
  const { xScale, yScale } = frame;
  let run = [];
  const endRun = () => {
    const corner = key => place => `${px(xScale.toPixel(x[place]))},${px(yScale.toPixel(band[key][place]))}`;
    const points = [...run.map(corner('high')), ...run.reverse().map(corner('low'))].join(' ');
    if (run.length > 1) svgNode('polygon', { points, fill: pen.paint(color || 'black'), 'fill-opacity': BAND_OPACITY }, parent);
    run = [];
  };
  x.forEach((value, place) => {
    if ([band.low, band.high].every(edge => yScale.drawable(edge[place])) && xScale.drawable(value)) run.push(place);
    else endRun();
  });
  endRun();
}

function drawBars(pen, parent, frame, bars, dots) {
  const { xScale, yScale } = frame;
  const floor = yScale.kind === 'log' ? frame.bottom : yScale.toPixel(0);
  let fill = '';
  let outline = '';
  let end = null;
  bars.heights.forEach((height, index) => {
    const [low, high] = [bars.edges[index], bars.edges[index + 1]];
    if (!isNumber(height) || height === 0 || !yScale.drawable(height) || !xScale.drawable(low)) return;
    const [x, right, y] = [xScale.toPixel(low), xScale.toPixel(high), yScale.toPixel(height)];
    fill += `M${px(x)} ${px(floor)}V${px(y)}H${px(right)}V${px(floor)}Z`;
    // one outline per run of bars, without walls inside
    if (end !== index) outline += `${outline && `V${px(floor)}`}M${px(x)} ${px(floor)}`;
    outline += `V${px(y)}H${px(right)}`;
    end = index + 1;
    for (let level = y; level < floor; level += 12) dots.push([(x + right) / 2, level]);
  });
  const color = pen.paint(bars.color || 'grey');
  if (!fill) return;
  svgNode('path', { d: fill, fill: color, 'fill-opacity': 0.35 }, parent);
  svgNode('path', { d: `${outline}V${px(floor)}`, fill: 'none', stroke: color, 'stroke-width': 1.5 }, parent);
}

function drawLine(pen, parent, frame, line, dots) {
  const { xScale, yScale } = frame;
  let d = '';
  let run = 0;
  let [x, y] = [0, 0];
  const endRun = () => {
    // a value with gaps on both sides would be invisible as a line
    if (run === 1) d += `M${px(x - 2)} ${px(y)}h4`;
    run = 0;
  };
  line.x.forEach((value, index) => {
    if (!xScale.drawable(value) || !yScale.drawable(line.y[index])) {
      endRun();
      return;
    }
    [x, y] = [xScale.toPixel(value), yScale.toPixel(line.y[index])];
    d += `${run ? 'L' : 'M'}${px(x)} ${px(y)}`;
    dots.push([x, y]);
    run += 1;
  });
  endRun();
  if (!d) return;
  svgNode('path', {
    d, fill: 'none', stroke: pen.paint(line.color || 'black'), 'stroke-width': line.width || 2,
    'stroke-dasharray': line.dash || null, 'stroke-linejoin': 'round', 'stroke-linecap': line.dash ? 'butt' : 'round',
  }, parent);
}

function drawErrors(pen, parent, frame, series) {
  const { xScale, yScale, top, bottom } = frame;
  let d = '';
  series.x.forEach((value, index) => {
    const y = series.y[index];
    const error = series.error ? series.error[index] : null;
    if (!isNumber(error) || error <= 0 || !xScale.drawable(value) || !isNumber(y)) return;
    if (!yScale.drawable(y + error)) return;
    const high = yScale.toPixel(y + error);
    const low = yScale.drawable(y - error) ? yScale.toPixel(y - error) : bottom + 10;
    d += errorBarPath(xScale.toPixel(value), Math.max(top, high), Math.min(bottom, low), high >= top, low <= bottom);
  });
  if (!d) return;
  svgNode('path', { d, fill: 'none', stroke: pen.paint(series.color || 'black'), 'stroke-width': 1.5 }, parent);
}

function drawSymbols(pen, parent, frame, series, dots) {
  let d = '';
  series.x.forEach((value, index) => {
    const place = pixelsOf(frame, value, series.y[index]);
    if (!place || !frame.xScale.has(value) || !frame.yScale.has(series.y[index])) return;
    d += symbolPath(series.marker, place[0], place[1], pen.size * 0.3);
    dots.push(place);
  });
  if (d) svgNode('path', { d, ...symbolStyle(pen, pen.paint(series.color || 'black')) }, parent);
}

function pixelsOf(frame, x, y) {
  if (!frame.xScale.drawable(x) || !frame.yScale.drawable(y)) return null;
  return [frame.xScale.toPixel(x), frame.yScale.toPixel(y)];
}

function visibleRules(frame, spec) {
  const shown = (rules, scale, key) => rules.filter(rule => scale.drawable(rule[key]) && scale.has(rule[key]));
  return { levels: shown(spec.levels, frame.yScale, 'y'), verticals: shown(spec.verticals, frame.xScale, 'x') };
}

function drawRules(pen, parent, frame, spec) {
  const { levels, verticals } = visibleRules(frame, spec);
  const style = rule => ({
    stroke: pen.paint(rule.color || 'grey'), 'stroke-width': 1.5, 'stroke-dasharray': rule.dash || null, fill: 'none',
  });
  for (const rule of levels) {
    const d = `M${px(frame.left)} ${px(frame.yScale.toPixel(rule.y))}H${px(frame.right)}`;
    svgNode('path', { d, ...style(rule) }, parent);
  }
  for (const rule of verticals) {
    const d = `M${px(frame.xScale.toPixel(rule.x))} ${px(frame.bottom)}V${px(frame.top)}`;
    svgNode('path', { d, ...style(rule) }, parent);
  }
}

function drawRuleLabels(pen, parent, frame, spec, dots) {
  const { levels, verticals } = visibleRules(frame, spec);
  const taken = [...dots];
  for (const { y } of levels) {
    for (let x = frame.left; x < frame.right; x += 16) taken.push([x, frame.yScale.toPixel(y)]);
  }
  for (const { x } of verticals) {
    for (let y = frame.top; y < frame.bottom; y += 8) taken.push([frame.xScale.toPixel(x), y]);
  }
  const room = { left: frame.left + 3, right: frame.right - 3, top: frame.top + 3, bottom: frame.bottom - 3 };
  const placer = new LabelPlacer(room, taken);
  for (const rule of verticals) putLabel(pen, parent, placer, rule, box => besideVertical(frame, rule, box));
  for (const rule of levels) putLabel(pen, parent, placer, rule, box => besideLevel(frame, rule, box));
  // verticals count as boxes for labels that come later
  const walls = verticals.map(({ x }) => ({ x: frame.xScale.toPixel(x) - 1, y: frame.top, width: 2 }));
  return [...placer.boxes, ...walls.map(wall => ({ ...wall, height: frame.bottom - frame.top }))];
}

function putLabel(pen, parent, placer, rule, candidatesFor) {
  if (!rule.label) return;
  const line = pen.small * 1.15;
  const lines = pen.wrap(rule.label, (placer.frame.right - placer.frame.left) * 0.66, pen.small);
  const size = { width: Math.max(...lines.map(text => pen.width(text, pen.small))), height: lines.length * line };
  const box = placer.place(candidatesFor(size));
  // text in the colour of a thin line is hard to read for pale colours, so labels are ink beside
  // their line
  lines.forEach((text, index) => {
    const options = { size: pen.small, halo: true, anchor: box.anchor };
    const x = box.anchor === 'end' ? box.x + box.width : box.x;
    pen.text(parent, x, box.y + line * index + pen.small * 0.88, text, options);
  });
}

function besideLevel(frame, rule, { width, height }) {
  const y = frame.yScale.toPixel(rule.y);
  const candidates = [];
  for (const [share, anchor] of [[1, 'end'], [0, 'start'], [0.75, 'start'], [0.5, 'start'], [0.25, 'start']]) {
    const x = frame.left + 7 + share * (frame.right - frame.left - 14 - width);
    candidates.push({ x, y: y - 4 - height, width, height, anchor }, { x, y: y + 4, width, height, anchor });
  }
  return candidates;
}

function besideVertical(frame, rule, { width, height }) {
  const x = frame.xScale.toPixel(rule.x);
  const candidates = [];
  for (let y = frame.top + 6; y + height < frame.bottom - 4; y += height + 5) {
    candidates.push({ x: x + 6, y, width, height, anchor: 'start' });
    candidates.push({ x: x - 6 - width, y, width, height, anchor: 'end' });
  }
  // wider than both sides: inside the frame, over its line
  const inside = Math.max(frame.left + 4, Math.min(frame.right - 4 - width, x - width / 2));
  candidates.push({ x: inside, y: frame.top + 6, width, height, anchor: 'start' });
  return candidates;
}

// The height of a line at x, between its samples along the drawn segment; null in a gap or outside.
export function lineValueAt(line, x, xScale, yScale) {
  const count = line.x.length;
  for (let index = 0; index < count; index += 1) {
    if (line.x[index] === x && yScale.drawable(line.y[index])) return line.y[index];
  }
  for (let index = 1; index < count; index += 1) {
    const [a, b] = [line.x[index - 1], line.x[index]];
    if ((a - x) * (b - x) > 0 || a === b || !xScale.drawable(a) || !xScale.drawable(b)) continue;
    if (!yScale.drawable(line.y[index - 1]) || !yScale.drawable(line.y[index])) continue;
    const share = (xScale.unit(x) - xScale.unit(a)) / (xScale.unit(b) - xScale.unit(a));
    const [low, high] = [yScale.unit(line.y[index - 1]), yScale.unit(line.y[index])];
    return yScale.value(low + share * (high - low));
  }
  return null;
}

// What there is to read near a pixel column: the x value (snapped to the nearest sample or the
// marker) and one row per series, a second one where it has a band.
export function readAt(spec, frame, pixel) {
  const { xScale, yScale } = frame;
  let best = 24;
  let x = valueAtPixel(xScale, pixel);
  // in a histogram the bin counts, and its borders are the worst place to read
  const marked = spec.marker ? [{ x: [spec.marker.x], y: [spec.marker.y] }] : [];
  for (const series of spec.bars.length ? [] : [...spec.lines, ...spec.points, ...marked]) {
    series.x.forEach((value, index) => {
      if (!xScale.drawable(value) || !xScale.has(value) || !yScale.drawable(series.y[index])) return;
      const distance = Math.abs(xScale.toPixel(value) - pixel);
      if (distance < best) [best, x] = [distance, value];
    });
  }
  const column = xScale.toPixel(x);
  const rows = [];
  for (const line of spec.lines) {
    const y = lineValueAt(line, x, xScale, yScale);
    if (y === null) continue;
    const text = `${line.x.includes(x) || line.y.includes(y) ? '' : '≈ '}${plainNumber(y, 4, true)}`;
    rows.push({ ...line, kind: 'line', text, at: [column, yScale.toPixel(y)] });
    const error = line.band ? lineValueAt({ x: line.x, y: line.band.error }, x, xScale, yScale) : null;
    if (error === null) continue;
    const share = `${plainNumber(error, 2)} (${plainNumber((100 * error) / y, 2)} %)`;
    rows.push({ kind: 'band', label: line.band.label, color: line.color, text: share, at: null });
  }
  for (const series of spec.points) {
    let [near, found] = [9, -1];
    series.x.forEach((value, index) => {
      const place = pixelsOf(frame, value, series.y[index]);
      if (place && Math.abs(place[0] - column) < near) [near, found] = [Math.abs(place[0] - column), index];
    });
    if (found < 0) continue;
    const text = numberWithError(series.y[found], series.error ? series.error[found] : null);
    rows.push({ ...series, kind: 'points', text, at: pixelsOf(frame, series.x[found], series.y[found]) });
  }
  for (const bars of spec.bars) {
    const index = bars.heights.findIndex((_, bin) => x >= bars.edges[bin] && x < bars.edges[bin + 1]);
    if (index < 0 || !isNumber(bars.heights[index])) continue;
    const span = `${plainNumber(bars.edges[index], 3)} to ${plainNumber(bars.edges[index + 1], 3)}`;
    rows.push({ ...bars, kind: 'bars', text: plainNumber(bars.heights[index]), note: span, at: null });
  }
  return { x, column, rows };
}
