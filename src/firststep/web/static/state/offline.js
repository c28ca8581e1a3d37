// The single-file page: every answer is looked up in the grid that was computed when the file was
// written.

function unpack(shipped) {
  const raw = atob(shipped.data);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i += 1) bytes[i] = raw.charCodeAt(i);
  if (!shipped.unit) return { shape: shipped.shape, values: new Float32Array(bytes.buffer) };
  const steps = new Int16Array(bytes.buffer);
  const values = Float32Array.from(steps, (step) => (step === -32768 ? NaN : step * shipped.unit));
  return { shape: shipped.shape, values };
}

function numberOrNull(value) {
  return Number.isFinite(value) ? Number(value.toPrecision(7)) : null;
}

// The place of the value nearest to a number.
function nearestPlace(values, wanted) {
  let best = 0;
  values.forEach((value, place) => {
    if (Math.abs(Math.log(value / wanted)) < Math.abs(Math.log(values[best] / wanted))) best = place;
  });
  return best;
}

// A question as a text; how many points a line has is for the file to say.
function questionKey(call, { problem, points: _, ...frame }) {
  const sorted = (table) => Object.entries(table).sort(([one], [other]) => (one < other ? -1 : 1));
  return JSON.stringify([call, sorted(problem), sorted(frame)]);
}

const notInFile = 'a screen of a story is recorded as it is: Next and Back lead on, and leaving the story leads back to '
  + 'the sliders of this file; “firststep explore” moves everything';
const onGrid = 1e-6; // relative

class OfflineGrid {
  constructor(shipped, refuse) {
    this.shipped = shipped;
    this.refuse = refuse;
    this.axes = shipped.axes;
    this.arrays = {};
    for (const name of Object.keys(shipped.arrays)) this.arrays[name] = unpack(shipped.arrays[name]);
  }

  // The file knows one student, teacher, noise and so on.
  checkFixed(problem) {
    const { order, about: { defaults } } = this.shipped;
    const isOther = (name) => !order.includes(name) && String(problem[name]) !== String(defaults[name]);
    if (Object.keys(problem).some(isOther)) throw this.refuse(422, [{ parameter: 'story', message: notInFile }]);
  }

  places(problem) {
    this.checkFixed(problem);
    const found = {};
    for (const name of this.shipped.order) {
      const wanted = problem[name] ?? problem.alpha;
      found[name] = nearestPlace(this.axes[name], wanted);
      const nearest = this.axes[name][found[name]];
      if (problem[name] === null || Math.abs(nearest - wanted) <= onGrid * nearest) continue;
      const message = `the file has no numbers at ${name} = ${wanted}, the nearest are at ${nearest}: move its slider`;
      throw this.refuse(422, [{ parameter: name, message }]);
    }
    return found;
  }

  // An array's row at a place; its last axes after those named are returned as they are.
  row(name, at, along) {
    const { shape, values } = this.arrays[name];
    let offset = at.beta * this.axes.alpha0.length + at.alpha0;
    along.forEach((axis, place) => { offset = offset * shape[place + 1] + at[axis]; });
    const length = shape.slice(along.length + 1).reduce((product, size) => product * size, 1);
    return Array.from(values.subarray(offset * length, (offset + 1) * length), numberOrNull);
  }

  number(name, at) {
    const along = name.startsWith('still') ? ['alpha', 'ridge'] : ['alpha', 'step', 'ridge'];
    return this.row(name, at, along)[0];
  }

  // Places along an axis between two values, the ends included.
  between(axis, from, to) {
    const inside = (value) => value >= from * 0.999 && value <= to * 1.001;
    return this.axes[axis].map((value, place) => place).filter((place) => inside(this.axes[axis][place]));
  }
}

function arrayName(line, quantity) {
  if (line === 'random-features') return `still_${quantity}`;
  return line === 'isotropic' && quantity !== 'alignment' ? `isotropic_${quantity}` : quantity;
}

export function offlineApi(shipped, refuse) {
  const grid = new OfflineGrid(shipped, refuse);
  const recorded = new Map((shipped.recorded || []).map(({ call, body, answer }) => [questionKey(call, body), answer]));

  // What is recorded comes before the grid.
  function orRecorded(call, other) {
    return async (body) => {
      const kept = recorded.get(questionKey(call, body));
      if (kept && kept.refused) throw refuse(422, [{ parameter: call, message: kept.refused }]);
      return kept || other(body);
    };
  }

  // Two values at least make a line; parameters name the fields that a message goes to.
  function chosen(axis, from, to, [fromField, toField]) {
    const wrong = (parameter, message) => refuse(422, [{ parameter, message }]);
    if (!(from < to)) throw wrong(toField, `to must be larger than from; got from = ${from}, to = ${to}`);
    const places = grid.between(axis, from, to);
    if (places.length > 1) return places;
    const [low, high] = [Math.min(...grid.axes[axis]), Math.max(...grid.axes[axis])];
    const there = places.length ? 'only one value' : 'no values';
    throw wrong(fromField, `from must be lower or to higher, in ${low} to ${high}: the file has ${there} there`);
  }

  function bandAround(y, error) {
    const edge = (at) => (value, place) => (value === null || error[place] === null ? null : at(value, error[place]));
    const low = (value, width) => Math.max(value - width, shipped.least_of_a_band * value);
    return { low: y.map(edge(low)), high: y.map(edge((value, width) => value + width)), error };
  }

  // The finite-size errors with their shares of the numbers; a file of d = infinity has none.
  function errorsAt(at, known) {
    if (!grid.arrays.model_error) return {};
    const values = {}, shares = {};
    for (const [name, about] of Object.entries(shipped.sized)) {
      values[name] = grid.number(name, at);
      shares[name] = known[about] > 0 && values[name] !== null ? values[name] / known[about] : null;
    }
    const [reason] = grid.row('model_error_reason', at, ['alpha', 'step', 'ridge']);
    const isFlagged = Object.values(shares).some((share) => !(share <= shipped.flagged_above));
    return { ...values, shares, model_error_reason: shipped.reasons[Math.round(reason)], is_flagged: isFlagged };
  }

  // A number, or the values of an array along the axis.
  function levelsOf(quantity, along) {
    const shown = shipped.about.lines.filter((line) => line.level && line.quantities.includes(quantity));
    const there = shown.filter(({ name }) => name in shipped.levels);
    return Object.fromEntries(there.map(({ name }) => (
      [name, typeof shipped.levels[name] === 'string' ? along(shipped.levels[name]) : shipped.levels[name]])));
  }

  // What is said of a point besides its quantities, where the file has it.
  function besides(at) {
    const known = {};
    for (const [name, of] of Object.entries(shipped.besides)) {
      known[name] = typeof of === 'string' ? grid.number(of, at) : of;
    }
    return known;
  }

  async function curve(body) {
    const at = grid.places(body.problem);
    const places = chosen(body.axis, body.from, body.to, ['from', 'to']);
    const name = arrayName(body.line, body.quantity);
    const along = (array) => places.map((place) => grid.number(array, { ...at, [body.axis]: place }));
    if (!grid.arrays[name]) throw refuse(422, [{ parameter: 'line', message: 'this line is not in the file' }]);
    const y = along(name);
    const error = Object.keys(shipped.sized).find((each) => shipped.sized[each] === body.quantity);
    const errors = error && arrayName(body.line, error);
    const band = errors && grid.arrays[errors] ? bandAround(y, along(errors)) : null;
    const levels = body.line === 'exact' ? levelsOf(body.quantity, along) : {};
    return { x: places.map((place) => grid.axes[body.axis][place]), y, band, extra: {}, notes: [], levels };
  }

  async function point(body) {
    const at = grid.places(body.problem);
    const known = besides(at);
    for (const { name } of shipped.about.quantities) if (grid.arrays[name]) known[name] = grid.number(name, at);
    const { shares = {}, ...errors } = errorsAt(at, known);
    Object.assign(known, errors);
    const parts = grid.row('split', at, ['alpha', 'step', 'ridge']);
    return {
      ...known,
      values: shipped.point.values.filter((word) => word.name in known)
        .map((word) => ({ ...word, value: known[word.name], ...(word.name in shares ? { share: shares[word.name] } : {}) })),
      kappa: shipped.kappa, density: shipped.density, teacher: shipped.teacher, total: shipped.total, split_note: shipped.split_note, notes: [],
      learned: grid.row('learned', at, ['alpha', 'step', 'ridge']), target: grid.row('target', at, ['step']),
      split: (shipped.split_note ? [] : shipped.point.split).map((word) => ({ ...word, value: parts[shipped.split.indexOf(word.name)] })),
    };
  }

  async function weights(body) {
    const at = grid.places(body.problem);
    const [low, high, outlier] = grid.row('marks', at, ['step']);
    const there = (value) => value !== null;
    return {
      dimension: shipped.dimension, width: Math.round(shipped.dimension * grid.axes.beta[at.beta]),
      notes: shipped.weights_notes,
      values: grid.row('weights', at, ['step']).filter(there), before: grid.row('before', at, []).filter(there),
      edge: high === null ? null : [low, high], outlier,
    };
  }

  async function map(body) {
    const at = grid.places(body.problem);
    const across = chosen(body.x.axis, body.x.from, body.x.to, ['x', 'x']);
    const up = chosen(body.y.axis, body.y.from, body.y.to, ['y', 'y']);
    const cell = (row, column) => {
      const place = { ...at, [body.x.axis]: column, [body.y.axis]: row };
      if (body.quantity !== 'ratio') return grid.number(body.quantity, place);
      const value = grid.number('risk', place);
      return value === null ? null : value / shipped.levels['kernel-bound'];
    };
    return {
      x: across.map((place) => grid.axes[body.x.axis][place]), y: up.map((place) => grid.axes[body.y.axis][place]),
      rows: up.map((_, row) => row), values: up.map((row) => across.map((column) => cell(row, column))), notes: [],
    };
  }

  async function take(body) {
    grid.checkFixed(body.problem);
    const numbers = { from: body.from, to: body.to, points: body.points, ...body.problem };
    const numberOf = (whole, name) => (name in numbers ? String(numbers[name]) : whole);
    const fill = (text) => text.replace(/\{(\w+)\}/g, numberOf);
    const texts = shipped.take[body.axis];
    return { python: fill(texts.python), command: fill(texts.command), toml: fill(texts.toml) };
  }

  return {
    about: async () => shipped.about, curve: orRecorded('curve', curve), point: orRecorded('point', point),
    weights: orRecorded('weights', weights), map, take,
  };
}
