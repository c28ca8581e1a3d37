// Scales, ticks and number formats.

const SUPERSCRIPTS = { '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' };

export function isNumber(value) {
  return typeof value === 'number' && Number.isFinite(value);
}

const sameTo = 1e-9; // relative: what differs by less differs by rounding, and no tick tells it apart
const mostTicks = 100;

// Whether a range is that of a single value, or of one with noise of rounding.
export function isOneValue(low, high) {
  return !(Math.abs(high - low) > sameTo * Math.max(Math.abs(low), Math.abs(high)));
}

// A range around one value.
export function aroundValue(value, share) {
  const reach = Math.abs(value) * share || 1;
  return [value - reach, value + reach];
}

// A scale from values to pixels; `unit` is the coordinate in which the axis is straight (log10 or
// the value itself).
export function makeScale(kind, range, pixels) {
  const log = kind === 'log';
  let [low, high] = range;
  if (log) {
    // a log axis cannot reach zero: show six decades below the top instead of failing
    if (!(high > 0)) [low, high] = [0.1, 1];
    if (!(low > 0)) low = high * 1e-6;
  }
  if (isOneValue(low, high)) [low, high] = log ? [low / 2, high * 2] : aroundValue(low, 0.5);
  const unit = log ? Math.log10 : value => value;
  const value = log ? position => 10 ** position : position => position;
  const start = unit(low);
  const span = unit(high) - start;
  const [from, to] = pixels;
  const factor = (to - from) / span;
  return {
    kind: log ? 'log' : 'linear', low, high, from, to, unit, value,
    drawable: number => isNumber(number) && (!log || number > 0),
    // far outside the frame coordinates are held, renderers do not like huge ones
    toPixel: number => Math.max(-20000, Math.min(20000, from + (unit(number) - start) * factor)),
    toValue: pixel => value(start + (pixel - from) / factor),
    clamp: number => Math.max(Math.min(low, high), Math.min(Math.max(low, high), number)),
    has: number => Math.abs((unit(number) - start) / span - 0.5) <= 0.5 + 1e-9,
  };
}

// Plain decimals between 1e-4 and 1e5, powers of ten outside; `full` keeps trailing zeros, for
// numbers in a column.
export function plainNumber(value, digits = 4, full = false) {
  if (!isNumber(value)) return '–';
  if (value === 0) return '0';
  const rounded = Number(value.toPrecision(digits));
  const size = Math.abs(rounded);
  if (size >= 0.99999e-4 && size <= 1.00001e5) {
    const keep = full && size < 10 ** (digits - 1) && !Number.isInteger(value);
    return (keep ? rounded.toPrecision(digits) : String(rounded)).replace('-', '−');
  }
  const [mantissa, exponent] = rounded.toExponential().split('e');
  const power = `10${[...String(Number(exponent))].map(letter => SUPERSCRIPTS[letter]).join('')}`;
  if (Math.abs(mantissa) === 1) return rounded < 0 ? `−${power}` : power;
  return `${mantissa}×${power}`.replace(/^-/, '−');
}

// A value with its standard error, both to the same decimal place.
export function numberWithError(value, error) {
  if (!isNumber(error) || error <= 0) return plainNumber(value);
  const places = 1 - Math.floor(Math.log10(error));
  if (places < 0 || places > 6 || Math.abs(value) >= 1e5) return `${plainNumber(value)} ± ${plainNumber(error, 2)}`;
  return `${value.toFixed(places)} ± ${error.toFixed(places)}`.replace('-', '−');
}

// The value at a pixel, to as many digits as a pixel can tell apart.
export function valueAtPixel(scale, pixel) {
  const value = scale.toValue(pixel);
  const step = Math.abs(scale.toValue(pixel + 1) - value);
  return scale.clamp(nearestMultiple(value, 10 ** Math.floor(Math.log10(step))));
}

function nearestMultiple(value, step) {
  return Number((Math.round(value / step) * step).toPrecision(12));
}

function fixedText(value, step) {
  const size = Math.abs(value);
  if (size > 1e5 || (size > 0 && size < 0.99999e-4)) return plainNumber(value);
  const places = Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
  return value.toFixed(places).replace('-', '−');
}

function linearTicks(low, high, wanted) {
  const rough = (high - low) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(multiple => multiple * power >= rough * 0.999999);
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  if (!(count <= mostTicks)) return [];
  const ticks = [];
  for (let index = 0; index < count; index += 1) {
    const value = nearestMultiple((first + index) * step, step);
    ticks.push({ value, text: fixedText(value, step) });
  }
  return ticks;
}

function logTicks(low, high, multiples, stride = 1) {
  const ticks = [];
  for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high) + 1e-9; power += 1) {
    if (power % stride !== 0) continue;
    for (const multiple of multiples) {
      const value = Number(`${multiple}e${power}`);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.push({ value, text: plainNumber(value) });
    }
  }
  return ticks;
}

// Ticks of a scale. `extent(text)` is how many pixels a label takes along the axis, its gap
// included. Returns { major: [{ value, text }], minor: [value] }; a tick whose label has no room
// becomes a minor one.
export function axisTicks(scale, extent) {
  const low = Math.min(scale.low, scale.high);
  const high = Math.max(scale.low, scale.high);
  const fits = ticks => ticks.every((tick, index) => index === 0 || apart(tick, ticks[index - 1]));
  const apart = (one, other) => Math.abs(scale.toPixel(one.value) - scale.toPixel(other.value))
    >= (extent(one.text) + extent(other.text)) / 2;
  if (scale.kind === 'log') {
    const decades = Math.log10(high / low);
    const fine = logTicks(low, high, [1, 2, 3, 4, 5, 6, 7, 8, 9]).map(tick => tick.value);
    if (decades >= 2.5) {
      let stride = 1;
      while (stride < decades && !fits(logTicks(low, high, [1], stride))) stride += 1;
      const powers = logTicks(low, high, [1]).map(tick => tick.value);
      return { major: logTicks(low, high, [1], stride), minor: stride === 1 && decades <= 10 ? fine : powers };
    }
    const ticks = logTicks(low, high, [1, 2, 5]);
    if (ticks.length >= 3) return { major: fits(ticks) ? ticks : thinTicks(ticks, apart), minor: fine };
  }
  let wanted = Math.max(2, Math.min(8, Math.floor(Math.abs(scale.to - scale.from) / (2 * extent('0.0')))));
  let ticks = linearTicks(low, high, wanted);
  while (wanted > 1 && !fits(ticks)) ticks = linearTicks(low, high, wanted -= 1);
  return { major: fits(ticks) ? ticks : thinTicks(ticks, apart), minor: [] };
}

// Keeps powers of ten first, then what still has room.
function thinTicks(ticks, apart) {
  const kept = [];
  const isPower = tick => Number.isInteger(Math.round(Math.log10(tick.value) * 1e9) / 1e9);
  for (const tick of [...ticks.filter(isPower), ...ticks.filter(tick => !isPower(tick))]) {
    if (kept.every(other => apart(tick, other))) kept.push(tick);
  }
  return kept.sort((one, other) => one.value - other.value);
}
