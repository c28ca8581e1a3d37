// What a problem is about, and which values go together: by the rules that the library sends.

// The name of a law: huber of huber:1.
export function lawName(text) {
  return String(text).split(':')[0];
}

function hasOtherFit(state, about) {
  return Object.entries(about.rules.fast).some(([name, value]) => state[name] !== value);
}

// Whether a point takes so long that lines are asked for in parts: another fit, labels that are
// random given the input, or inputs with a spectrum of finitely many eigenvalues.
export function isSlow(state, about) {
  const { spread, spectra } = about.rules;
  const law = lawName(state.labels);
  const hasSpectrum = state.dimension !== 'inf' && spectra.includes(lawName(state.inputs));
  return hasOtherFit(state, about) || hasSpectrum || (law in spread && (spread[law] === null || state[spread[law]] > 0));
}

export function kindOf(state, about) {
  if (about.rules.binary.includes(lawName(state.labels))) return 'classes';
  return hasOtherFit(state, about) ? 'loss' : 'ridge';
}

// Of quantities or lines those that mean something.
export function offeredIn(words, state, about) {
  const kind = kindOf(state, about);
  return words.filter((word) => !word.kinds || word.kinds.includes(kind));
}

// Labels and inputs decide which values others may have: what one of them leaves to a field,
// { allowed, why, by }, or null where they leave all.
export function limitOf(name, state, about) {
  for (const [by, laws] of Object.entries(about.rules.limits)) {
    const limit = (laws[lawName(state[by])] || {})[name];
    if (limit) return { ...limit, by };
  }
  return null;
}

function isAllowed(value, limit) {
  return limit.allowed.includes(typeof value === 'string' ? lawName(value) : value);
}

// A field that has nothing to choose from, and stands where it must.
export function isIdle(name, state, about) {
  const limit = limitOf(name, state, about);
  return Boolean(limit) && limit.allowed.length === 1 && isAllowed(state[name], limit);
}

// Another quantity where that of the state means nothing, or where the problem is of a new kind and
// nothing but what the old one is about (the first of its quantities) or the default was chosen.
export function shownInstead(state, about, before = state) {
  const changes = {};
  for (const [key, words] of [['quantity', about.quantities], ['map_quantity', about.map_quantities]]) {
    const offered = offeredIn(words, state, about);
    const isNewKind = kindOf(before, about) !== kindOf(state, about);
    const usual = [offeredIn(words, before, about)[0].name, about.defaults[key]];
    const wasUsual = isNewKind && usual.includes(state[key]);
    if (!wasUsual && offered.some((word) => word.name === state[key])) continue;
    changes[key] = offered[0].name;
    if (key === 'quantity') changes.yscale = offered[0].scale;
  }
  return changes;
}

// A change, and what must change with it so that the values still go together.
export function settled(state, changes, about) {
  const more = {};
  const next = { ...state, ...changes };
  for (const field of Object.keys(about.rules.limits).some((by) => by in changes) ? about.fields : []) {
    const limit = limitOf(field.name, next, about);
    if (!limit || field.name in changes || isAllowed(state[field.name], limit)) continue;
    more[field.name] = isAllowed(field.default, limit) ? field.default : limit.allowed[0];
  }
  return { ...changes, ...more, ...shownInstead({ ...next, ...more }, about, state) };
}
