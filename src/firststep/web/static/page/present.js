// Presentation: the figure fills the screen, with large text, up to three sliders and the sentence
// below. It is part of the state, so that a link shows it; the key p begins and ends it.
import { nodeById } from './tools.js';

export const mostSliders = 3;
const usual = ['step', 'alpha0', 'ridge'];

// The fields whose sliders are shown; those that are no field are left out.
export function chosenSliders(text, about) {
  const known = new Set(about.fields.filter((field) => field.kind === 'number').map((field) => field.name));
  return text.split(',').filter((name) => known.has(name)).slice(0, mostSliders);
}

export class Presentation {
  constructor({ about, store }) {
    Object.assign(this, { about, store });
    nodeById('present').addEventListener('click', () => this.toggle());
    nodeById('present-end').addEventListener('click', () => this.toggle());
    document.addEventListener('keydown', (event) => {
      const isTyping = event.target.matches && event.target.matches('input, select, textarea');
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === 'p' || (event.key === 'Escape' && this.store.state.present)) this.toggle();
    });
  }

  usualSliders() {
    return [...new Set([this.store.state.axis, ...usual])].slice(0, mostSliders).join();
  }

  // An address ending in ?present, or ?present=alpha,step, begins with the presentation; from then
  // on it is part of the state, as elsewhere.
  beginIfAsked() {
    const asked = new URLSearchParams(location.search).get('present');
    if (asked === null) return;
    history.replaceState(history.state, '', location.pathname + location.hash);
    if (!this.store.state.present) this.store.set({ present: asked || this.usualSliders(), tab: 'curve' });
  }

  toggle() {
    const { present } = this.store.state;
    this.store.set({ present: present ? '' : this.usualSliders(), tab: 'curve' });
    const next = nodeById(present ? 'present' : 'present-end');
    next.focus();
  }

  render(state) {
    const sliders = chosenSliders(state.present, this.about);
    document.body.classList.toggle('presenting', Boolean(state.present));
    nodeById('present-end').hidden = !state.present;
    for (const line of document.querySelectorAll('#fields [data-field]')) {
      line.classList.toggle('presented', sliders.includes(line.dataset.field));
    }
  }
}
