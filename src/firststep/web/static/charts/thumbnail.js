// A small picture of a curve or of a phase diagram: shapes without numbers.
import { isNumber, makeScale } from './axis.js';
import { heatColor } from './contour.js';
import { px, svgNode } from './svg.js';

const [THUMB_WIDTH, THUMB_HEIGHT, THUMB_PAD] = [168, 84, 5];
const THUMB_LOOKS = { exact: ['blue', 2.2, null], 'random-features': ['grey', 1.4, '2 3'] };

function thumbRoot() {
  const viewBox = `0 0 ${THUMB_WIDTH} ${THUMB_HEIGHT}`;
  return svgNode('svg', { viewBox, width: THUMB_WIDTH, height: THUMB_HEIGHT, 'aria-hidden': 'true' });
}

// lines: { name: heights } at places that are equally far apart on the axis.
export function lineThumbnail(lines, scale) {
  const root = thumbRoot();
  const seen = Object.values(lines).flat().filter(value => isNumber(value) && (scale !== 'log' || value > 0));
  if (!seen.length) return root;
  const up = makeScale(scale, [Math.min(...seen), Math.max(...seen)], [THUMB_HEIGHT - THUMB_PAD, THUMB_PAD]);
  for (const [name, values] of Object.entries(lines).reverse()) {
    const across = makeScale('linear', [0, values.length - 1], [THUMB_PAD, THUMB_WIDTH - THUMB_PAD]);
    let d = '';
    let isOn = false;
    values.forEach((value, index) => {
      const isDrawn = up.drawable(value);
      if (isDrawn) d += `${isOn ? 'L' : 'M'}${px(across.toPixel(index))} ${px(up.toPixel(value))}`;
      isOn = isDrawn;
    });
    const [color, width, dash] = THUMB_LOOKS[name];
    svgNode('path', { d, fill: 'none', stroke: `var(--c-${color})`, 'stroke-width': width, 'stroke-dasharray': dash,
      'stroke-linejoin': 'round' }, root);
  }
  return root;
}

// rows: ratios, 1 is neutral; the first row is the lowest.
export function phaseThumbnail(rows) {
  const root = thumbRoot();
  const logs = rows.map(row => row.map(value => (value > 0 ? Math.log(value) : null)));
  const reach = Math.max(...logs.flat().filter(isNumber).map(Math.abs), 1e-3);
  const [wide, high] = [THUMB_WIDTH / rows[0].length, THUMB_HEIGHT / rows.length];
  logs.forEach((row, y) => row.forEach((value, x) => {
    if (value === null) return;
    svgNode('rect', { x: x * wide, y: THUMB_HEIGHT - (y + 1) * high, width: wide + 0.5, height: high + 0.5,
      fill: heatColor('diverging', 0.5 + (0.5 * value) / reach) }, root);
  }));
  return root;
}
