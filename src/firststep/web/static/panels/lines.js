// The lines of the curve panel: their boxes, which of them there are, and the levels among them.
import { buildNode, nodeById, numberText } from '../page/tools.js';
import { offeredIn } from '../state/meaning.js';

function swatchStyle(dash) {
  if (!dash || dash === '1 0') return 'solid';
  return parseFloat(dash) <= 2 ? 'dotted' : 'dashed';
}

export class LineBoxes {
  constructor({ about, store, words }) {
    this.about = about;
    for (const line of about.lines) {
      const box = buildNode('input', { type: 'checkbox', id: `line-${line.name}` });
      box.addEventListener('change', (event) => {
        const names = about.lines.map((each) => each.name).filter((name) => nodeById(`line-${name}`).checked);
        store.set({ lines: names }, { event });
      });
      const swatch = buildNode('span', { class: 'swatch', 'aria-hidden': 'true' });
      swatch.style.borderTopColor = `var(--c-${line.color})`;
      swatch.style.borderTopStyle = swatchStyle(line.dash);
      const level = buildNode('span', { id: `level-${line.name}`, class: 'soft' });
      const label = buildNode('label', {}, box, swatch, line.label, level);
      nodeById('lines').append(buildNode('span', { class: 'check' }, label, words.questionMark(line)));
    }
  }

  // Not every line has every quantity or every kind of problem, and the best ridge is no curve along
  // the ridge.
  offers(line, state) {
    if (line.name === 'optimal-ridge' && state.axis === 'ridge') return false;
    return line.quantities.includes(state.quantity) && offeredIn([line], state, this.about).length > 0;
  }

  shows(line, state) {
    return state.lines.includes(line.name) && this.offers(line, state);
  }

  render(state) {
    for (const line of this.about.lines) {
      const box = nodeById(`line-${line.name}`);
      box.checked = state.lines.includes(line.name);
      box.disabled = !this.offers(line, state);
      box.closest('.check').hidden = !offeredIn([line], state, this.about).length;
    }
  }

  // What comes with the exact line: a number is a level, anything else a line along its axis.
  levelsOf({ levels, x }, state) {
    const shown = this.about.lines.filter((line) => line.level && this.shows(line, state));
    const found = { lines: [], levels: [] };
    for (const { name, label, color, dash } of shown) {
      const value = levels[name] ?? null;
      nodeById(`level-${name}`).textContent = typeof value === 'number' ? numberText(value, 3) : '';
      if (Array.isArray(value)) found.lines.push({ label, x, y: value, color, dash, width: 2, extra: {}, band: null });
      else if (Number.isFinite(value)) found.levels.push({ label, y: value, color, dash });
    }
    return found;
  }
}
