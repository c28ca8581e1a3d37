// A pinned problem, A: its curve, its sentences and the parts of its error stay while the hand moves
// on to B. It is part of the state, so that a link keeps both.
import { buildNode, keepUnits, nodeById, numberText } from '../page/tools.js';
import { problemNames, problemOf, problemText, readHash, sameState } from '../state/state.js';
import { Slot } from '../state/requests.js';
import { barOf } from './split.js';

export const pinnedLabel = 'A, pinned';

// The problem that a text of the state names; null where there is none.
export function pinnedProblem(text, about) {
  if (!text) return null;
  const { found } = readHash(text, about);
  const named = Object.fromEntries(Object.entries(found).filter(([name]) => problemNames.includes(name)));
  return { ...problemOf(about.defaults), ...named };
}

export class Pin {
  constructor({ api, about, store, gate }) {
    Object.assign(this, { about, store });
    this.button = nodeById('pin');
    this.place = nodeById('pinned');
    this.button.addEventListener('click', () => this.toggle());
    const ask = (call, show) => new Slot((body, signal) => gate.pass(signal, () => api[call](body, signal)), {
      onAnswer: (answer) => { show(answer); this.draw(); },
      onError: () => {}, // the curve says what is wrong
    });
    this.slots = [ask('point', (answer) => { this.point = answer; })];
    if (api.words) this.slots.push(ask('words', ({ words }) => { this.words = words; }));
  }

  toggle() {
    const { state } = this.store;
    this.store.seal();
    this.store.set({ pin: state.pin ? '' : problemText(state, this.about.defaults) });
    this.store.seal();
  }

  render(state) {
    this.button.setAttribute('aria-pressed', String(Boolean(state.pin)));
    this.button.textContent = state.pin ? 'Unpin A' : 'Pin as A';
    if (state.pin === this.shown) {
      this.draw();
      return;
    }
    this.shown = state.pin;
    Object.assign(this, { point: null, words: '' });
    const problem = pinnedProblem(state.pin, this.about);
    for (const slot of this.slots) {
      if (problem) slot.ask({ problem });
      else slot.cancel();
    }
    this.draw();
  }

  // How A and B differ, in the fields that do.
  differences() {
    const problem = pinnedProblem(this.shown, this.about);
    const { state } = this.store;
    const text = (value) => (typeof value === 'number' ? numberText(value) : value === null ? 'same' : String(value));
    return problemNames.filter((name) => !sameState(problem, state, [name]))
      .map((name) => `${name} ${text(problem[name])}`);
  }

  draw() {
    this.place.hidden = !this.shown;
    if (!this.shown) return;
    const others = this.differences();
    const where = others.length ? `A: ${others.join(', ')}; the rest as here.` : 'A: the problem that is shown.';
    const bar = this.point && this.point.split.length ? barOf(this.point.split) : null;
    this.place.replaceChildren(
      buildNode('p', { class: 'soft' }, where),
      ...(this.words ? [buildNode('p', { class: 'sentences' }, keepUnits(this.words))] : []),
      ...(bar ? [buildNode('div', { class: 'bar small', 'aria-hidden': 'true' }, ...bar.pieces)] : []),
    );
  }
}
