// The address of the page keeps in step with the state, and Back goes back: every control that is
// taken up makes an entry of the history, as does whatever changes much at once.
import { hashOf } from './state.js';

const addressPause = 200; // ms: browsers limit how often the address may change
const manyNames = 4; // a preset or a screen of a story changes as many fields or more

export class Address {
  constructor(store) {
    this.store = store;
    this.shown = store.state;
    this.entry = '';
    this.isNew = false;
    this.isGiven = false;
    store.subscribe((state, cause) => this.changed(state, cause));
  }

  changed(state, { names, begins, live }) {
    const entry = names.length < manyNames ? names.join() : '';
    if (begins && !this.isGiven && (!entry || entry !== this.entry)) {
      this.write(this.shown); // the entry that is left behind is whole
      this.isNew = true;
    }
    if (begins) this.entry = this.isGiven ? '' : entry;
    this.shown = state;
    clearTimeout(this.timer);
    // A click is there at once: a reload right after it shows what it did.
    if (begins && !live && !this.isGiven) this.write(state);
    else this.timer = setTimeout(() => this.write(state), addressPause);
  }

  // Also at once, before a link is taken away.
  write(state = this.store.state) {
    clearTimeout(this.timer);
    const hash = hashOf(state, this.store.defaults);
    try {
      if (this.isNew && hash !== location.hash) history.pushState(null, '', hash);
      else history.replaceState(null, '', hash);
    } catch { /* too often: the next change is in time */ }
    this.isNew = false;
  }

  // A change that comes from the address makes no entry of its own.
  given(change) {
    this.isGiven = true;
    change();
    this.isGiven = false;
  }
}
