// The current problem read out: what the step buys, how far that is from the bounds, what would
// help.
import { keepUnits, nodeById } from '../page/tools.js';
import { problemOf } from '../state/state.js';
import { Slot } from '../state/requests.js';

const pause = 300; // ms of rest: the sentences take some ten predictions

export class Sentences {
  constructor({ api, gate }) {
    this.line = nodeById('sentences');
    this.slot = new Slot((body, signal) => gate.pass(signal, () => api.words(body, signal)), {
      onAnswer: ({ words }, context) => this.show(words, context),
      onError: () => this.show(''), // the panels say what is wrong
    });
    this.isKnown = Boolean(api.words); // an exported page has none
  }

  // The problem is another one: what stands here belongs to an older one until the answer comes.
  fade() {
    clearTimeout(this.timer);
    this.slot.cancel();
    this.line.classList.add('outdated');
  }

  refresh(state) {
    if (!this.isKnown) return;
    const body = { problem: problemOf(state) };
    if (JSON.stringify(body) === this.shown) return;
    this.fade();
    this.timer = setTimeout(() => this.slot.ask(body, { asked: JSON.stringify(body) }), pause);
  }

  // Read out when it changes; a text that stays is not written again.
  show(words, { asked = null } = {}) {
    this.shown = asked;
    this.line.classList.remove('outdated');
    const text = keepUnits(words);
    if (this.line.textContent !== text) this.line.textContent = text;
  }
}
