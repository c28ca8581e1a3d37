// What the axes of curves and maps are called, and what a curve is asked for.
import { capitalised } from '../page/tools.js';
import { problemOf } from '../state/state.js';

export function axisTitle(field) {
  return `${capitalised(field.label)}, ${field.symbol || field.name}`;
}

// In a list the symbol comes first: a narrow screen cuts the end off.
export function axisOption(field) {
  return field.symbol ? `${field.symbol}, ${field.label}` : capitalised(field.label);
}

// 'α = n/d' is introduced in the controls; elsewhere α is enough.
export function shortSymbol(field) {
  return field.symbol ? field.symbol.split(' ')[0] : field.name;
}

// A curve does not depend on where its own axis stands, so a drag along the axis asks nothing new.
export function curveProblem(state, defaults) {
  return { ...problemOf(state), [state.axis]: defaults[state.axis] };
}

export function frameOf({ axis, from, to, xscale, quantity }) {
  return { axis, from, to, xscale, quantity };
}

// The height of a curve between its points.
export function between(xs, ys, x, log) {
  const right = xs.findIndex((each) => each >= x);
  if (right < 0 || ys[right] === null) return null;
  if (right === 0 || xs[right] === x) return ys[right];
  if (ys[right - 1] === null) return null;
  const place = (value) => (log ? Math.log(value) : value);
  const part = (place(x) - place(xs[right - 1])) / (place(xs[right]) - place(xs[right - 1]));
  return ys[right - 1] + part * (ys[right] - ys[right - 1]);
}
