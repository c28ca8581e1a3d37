// Iso-lines of a grid by marching squares, and the colours of a heat map.
import { isNumber } from './axis.js';

// Viridis, and blue-white-red of ColorBrewer: both are safe for colour-blind readers.
const SEQUENTIAL_STOPS = [
  '#440154', '#472d7b', '#3b528b', '#2c728e', '#21918c', '#28ae80', '#5ec962', '#addc30', '#fde725',
];
const DIVERGING_STOPS = [
  '#2166ac', '#4393c3', '#92c5de', '#d1e5f0', '#f7f7f7', '#fddbc7', '#f4a582', '#d6604d', '#b2182b',
];

// The sides of a cell are 0 bottom, 1 right, 2 top, 3 left; corners count from the lower left,
// counter-clockwise.
const CELL_SEGMENTS = {
  1: [[3, 0]], 2: [[0, 1]], 3: [[3, 1]], 4: [[1, 2]], 6: [[0, 2]], 7: [[3, 2]],
  8: [[2, 3]], 9: [[2, 0]], 11: [[2, 1]], 12: [[1, 3]], 13: [[1, 0]], 14: [[0, 3]],
};

// A colour for a share from 0 to 1.
export function heatColor(palette, share) {
  const stops = palette === 'sequential' ? SEQUENTIAL_STOPS : DIVERGING_STOPS;
  const within = Math.max(0, Math.min(1, share));
  const position = (palette === 'diverging-reversed' ? 1 - within : within) * (stops.length - 1);
  const index = Math.min(stops.length - 2, Math.floor(position));
  const part = position - index;
  let color = '#';
  for (const at of [1, 3, 5]) {
    const low = parseInt(stops[index].slice(at, at + 2), 16);
    const high = parseInt(stops[index + 1].slice(at, at + 2), 16);
    color += Math.round(low + part * (high - low)).toString(16).padStart(2, '0');
  }
  return color;
}

// Polylines [[x, y], ...] in the coordinates xs, ys (one per column, one per row) where the grid
// takes the level. Values are compared after `unit`, so that log colours get contours that are
// straight on the log.
export function contourLines(values, xs, ys, level, unit) {
  const wanted = unit(level);
  const segments = [];
  for (let row = 0; row + 1 < ys.length; row += 1) {
    const [low, high] = [values[row], values[row + 1]];
    if (!low || !high) continue;
    for (let column = 0; column + 1 < xs.length; column += 1) {
      const raw = [low[column], low[column + 1], high[column + 1], high[column]];
      if (!raw.every(isNumber)) continue;
      const corners = raw.map(value => unit(value) - wanted);
      if (corners.every(Number.isFinite)) addSegments(segments, corners, row, column, xs, ys);
    }
  }
  return joinSegments(segments);
}

function addSegments(segments, corners, row, column, xs, ys) {
  const code = corners.reduce((sum, corner, index) => sum + (corner > 0 ? 2 ** index : 0), 0);
  let pairs = CELL_SEGMENTS[code];
  if (code === 5 || code === 10) {
    // a saddle: the middle of the cell decides which corners belong together
    const joined = (corners[0] + corners[1] + corners[2] + corners[3] > 0) === (code === 5);
    pairs = joined ? [[0, 1], [2, 3]] : [[3, 0], [1, 2]];
  }
  if (!pairs) return;
  const share = (from, to) => corners[from] / (corners[from] - corners[to]);
  const between = (list, index, part) => list[index] + part * (list[index + 1] - list[index]);
  // a side has the same name in both cells that share it: that is how pieces find each other
  const side = [
    () => [`h${row},${column}`, between(xs, column, share(0, 1)), ys[row]],
    () => [`v${row},${column + 1}`, xs[column + 1], between(ys, row, share(1, 2))],
    () => [`h${row + 1},${column}`, between(xs, column, share(3, 2)), ys[row + 1]],
    () => [`v${row},${column}`, xs[column], between(ys, row, share(0, 3))],
  ];
  for (const [one, other] of pairs) segments.push([side[one](), side[other]()]);
}

function joinSegments(segments) {
  const at = new Map();
  const used = new Set();
  segments.forEach((segment, index) => {
    for (const [name] of segment) at.set(name, [...(at.get(name) || []), index]);
  });
  const extend = (line, name) => {
    for (;;) {
      const next = (at.get(name) || []).find(index => !used.has(index));
      if (next === undefined) return;
      used.add(next);
      const [one, other] = segments[next];
      const end = one[0] === name ? other : one;
      line.push([end[1], end[2]]);
      name = end[0];
    }
  };
  const lines = [];
  segments.forEach(([one, other], index) => {
    if (used.has(index)) return;
    used.add(index);
    const forward = [[other[1], other[2]]];
    extend(forward, other[0]);
    const backward = [[one[1], one[2]]];
    extend(backward, one[0]);
    lines.push([...backward.reverse(), ...forward]);
  });
  return lines;
}
