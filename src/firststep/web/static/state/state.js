// What is being looked at: one flat state, its history, and its form in the address of the page.

// The fields of a problem, named by the library before anything is drawn; those that came later are
// left out of a link at their defaults, which never change.
export const problemNames = [];
const laterNames = new Set();

export function learnFields(about) {
  problemNames.splice(0, Infinity, ...about.fields.map((field) => field.name));
  for (const field of about.fields) if (field.later) laterNames.add(field.name);
}

const longestText = 300; // of a link; the library says what is too long for an expression
const longestPin = 3000; // of a whole problem
const historyLength = 200; // states that can be undone
// ms: changes of the same fields that follow each other this fast are undone together
const sameGesture = 1200;

export function problemOf(state) {
  return Object.fromEntries(problemNames.map((name) => [name, state[name]]));
}

// The value of a field in numbers: alpha0 may follow alpha.
export function fieldValue(state, name) {
  return name === 'alpha0' && state.alpha0 === null ? state.alpha : state[name];
}

function sameValue(one, other) {
  return Array.isArray(one) && Array.isArray(other) ? one.join() === other.join() : one === other;
}

export function sameState(one, other, names = Object.keys(other)) {
  return names.every((name) => sameValue(one[name], other[name]));
}

function valueText(name, value) {
  if (name === 'alpha0' && value === null) return 'same';
  return Array.isArray(value) ? value.join(',') : String(value);
}

// The problem is always written out, so that a link keeps its meaning when the defaults change.
export function hashOf(state, defaults) {
  const parts = new URLSearchParams();
  for (const name of Object.keys(defaults)) {
    const differs = !sameValue(state[name], defaults[name]);
    if (differs || (problemNames.includes(name) && !laterNames.has(name))) parts.set(name, valueText(name, state[name]));
  }
  return '#' + parts.toString().replaceAll('%2C', ',').replaceAll('%3A', ':').replaceAll('%2A', '*');
}

// The problem alone, as it stands in an address.
export function problemText(state, defaults) {
  return hashOf({ ...defaults, ...problemOf(state) }, defaults).slice(1);
}

// The words that are allowed where only some are.
function choicesOf(about, field, name) {
  const scales = ['log', 'linear'];
  const named = (list) => list.map((each) => each.name);
  if (field) return field.options;
  const choices = {
    axis: about.axes, xscale: scales, yscale: scales, quantity: named(about.quantities),
    tab: ['curve', 'map'], story: ['', ...named(about.stories)], sim_model: named(about.models),
    map_x: about.map_axes, map_y: about.map_axes, map_quantity: named(about.map_quantities),
  };
  return choices[name];
}

function readValue(name, text, about) {
  const field = about.fields.find((each) => each.name === name);
  const kind = field ? field.kind : typeof about.defaults[name];
  if (kind === 'switch') return { true: true, false: false }[text];
  if (['activation', 'readout', 'law', 'text'].includes(kind)) {
    return (text.length > 0 || kind === 'text') && text.length <= longestText ? text : undefined;
  }
  if (field && field.optional && text === 'same') return null;
  if (kind === 'dimension' && text === 'inf') return 'inf';
  if (name === 'present' || name === 'lock') return text.length <= longestText ? text : undefined;
  if (name === 'pin') return text.length <= longestPin ? text : undefined;
  if (name === 'lines') {
    const names = text === '' ? [] : text.split(',');
    return names.every((line) => about.lines.some((known) => known.name === line)) ? names : undefined;
  }
  if (['number', 'dimension'].includes(kind) || typeof about.defaults[name] === 'number') {
    const number = text.trim() === '' ? NaN : Number(text);
    return Number.isFinite(number) ? number : undefined;
  }
  return choicesOf(about, field, name).includes(text) ? text : undefined;
}

// Reads an address; what is unknown or cannot be read is left out and named.
export function readHash(hash, about) {
  const found = {};
  const ignored = [];
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ''))) {
    const value = Object.hasOwn(about.defaults, name) ? readValue(name, text, about) : undefined;
    if (value === undefined) ignored.push(name);
    else found[name] = value;
  }
  return { found, ignored };
}

export class Store {
  constructor(about, start) {
    this.defaults = about.defaults;
    this.state = { ...about.defaults, ...start };
    this.past = [];
    this.future = [];
    this.lastNames = '';
    this.lastTime = -Infinity;
    this.live = false;
    this.listeners = [];
  }

  subscribe(listener) {
    this.listeners.push(listener);
  }

  // cause: { event, live }; live is a gesture under way (a slider or the marker being dragged).
  set(changes, cause = {}) {
    const names = Object.keys(changes).filter((name) => !sameValue(this.state[name], changes[name]));
    if (!names.length) return;
    const now = performance.now();
    const key = names.join();
    const last = this.lastNames.split(',');
    // A drag is one change however long it rests, until it is sealed.
    const isOneDrag = this.live && Boolean(cause.live) && names.some((name) => last.includes(name));
    const begins = !isOneDrag && (key !== this.lastNames || now - this.lastTime > sameGesture);
    if (begins) {
      this.past.push(this.state);
      if (this.past.length > historyLength) this.past.shift();
    }
    this.lastNames = key;
    this.lastTime = now;
    this.future = [];
    this.state = { ...this.state, ...changes };
    this.tell(cause, names, begins);
  }

  // The gesture is over: the next change can be undone by itself, and what was drawn in haste is
  // drawn in full.
  seal(event = null) {
    this.lastNames = '';
    if (this.live) this.tell({ event }, []);
  }

  undo() {
    this.travel(this.past, this.future);
  }

  redo() {
    this.travel(this.future, this.past);
  }

  travel(from, to) {
    if (!from.length) return;
    to.push(this.state);
    const old = this.state;
    this.state = from.pop();
    this.lastNames = '';
    this.tell({}, Object.keys(this.state).filter((name) => !sameValue(old[name], this.state[name])));
  }

  tell(cause, names, begins = false) {
    this.live = Boolean(cause.live);
    // The time of the input event itself, so that waiting in the browser's queue counts as latency.
    const time = cause.event && cause.event.timeStamp > 0 ? cause.event.timeStamp : performance.now();
    for (const listener of this.listeners) listener(this.state, { live: Boolean(cause.live), time, names, begins });
  }
}
