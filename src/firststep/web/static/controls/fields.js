// One control per field of the problem: slider with number box, text with suggestions, choice,
// dimension.
import { buildNode, fillSelect, numberIn, numberText, writeNumber } from '../page/tools.js';
import { SliderScale } from './sliders.js';
import { nameBy } from '../page/words.js';

const typingPause = 120; // ms: an expression is looked at when the hand rests, not after every letter

function fieldFrame(field, words, extra = null, look = 'field') {
  const title = [field.label, field.symbol && field.symbol !== field.label ? buildNode('i', {}, field.symbol) : null];
  const term = words.term('', { ...field, anchor: field.anchor || 'fields' }, `t-${field.name}`);
  term.append(...title.filter(Boolean).flatMap((part, index) => (index ? [' ', part] : [part])));
  const error = buildNode('p', { class: 'error', id: `e-${field.name}`, 'aria-live': 'polite' });
  const head = buildNode('div', { class: 'field-head' }, term, extra);
  const body = buildNode('div', { class: 'field-body' });
  return { node: buildNode('div', { class: look, 'data-field': field.name }, head, body, error), body, term, error };
}

function disableAll(node, why) {
  for (const control of node.querySelectorAll('input, select')) {
    control.disabled = true;
    control.title = why;
  }
}

export class NumberField {
  constructor(field, { store, words, grid }) {
    this.field = field;
    this.store = store;
    this.scale = new SliderScale(field, grid);
    let extra = null;
    if (field.optional) {
      this.same = buildNode('input', { type: 'checkbox', id: `same-${field.name}`, disabled: Boolean(grid),
        onchange: () => this.toggleSame() });
      extra = buildNode('span', { class: 'check' }, buildNode('label', {}, this.same, ' same as α'),
        words.questionMark(words.find('same_as_alpha')));
    }
    const frame = fieldFrame(field, words, extra);
    this.node = frame.node;
    this.error = frame.error;
    this.slider = buildNode('input', { type: 'range', id: `s-${field.name}`, min: 0, max: this.scale.max, step: 1,
      oninput: (event) => this.slid(event), onchange: (event) => store.seal(event) });
    this.box = buildNode('input', { type: 'number', id: `f-${field.name}`, step: 'any', inputmode: 'decimal',
      'aria-describedby': `e-${field.name}`, oninput: (event) => this.typed(event), onchange: () => store.seal() });
    nameBy(this.slider, frame.term);
    nameBy(this.box, frame.term);
    frame.body.append(this.slider, this.box);
  }

  slid(event) {
    const value = this.scale.valueAt(Number(this.slider.value));
    this.forgive();
    this.store.set({ [this.field.name]: value }, { event, live: true });
  }

  forgive() {
    this.error.textContent = '';
    this.box.removeAttribute('aria-invalid');
  }

  typed(event) {
    const value = numberIn(this.box);
    if (value === null) {
      this.error.textContent = `${this.field.name} must be a number`;
      this.box.setAttribute('aria-invalid', 'true');
      return;
    }
    this.forgive();
    this.store.set({ [this.field.name]: this.scale.grid ? this.scale.nearest(value) : value }, { event });
  }

  toggleSame() {
    this.store.set({ [this.field.name]: this.same.checked ? null : this.store.state.alpha });
  }

  render(state) {
    const follows = state[this.field.name] === null;
    const value = follows ? state.alpha : state[this.field.name];
    if (this.same) this.same.checked = follows;
    const position = String(this.scale.positionOf(value));
    // Several positions can mean the same rounded value: the hand keeps the one it chose.
    if (this.scale.valueAt(Number(this.slider.value)) !== value) this.slider.value = position;
    this.slider.setAttribute('aria-valuetext', follows ? `same as α, ${numberText(value)}` : numberText(value));
    if (numberIn(this.box) === null) this.forgive();
    writeNumber(this.box, value);
    this.node.classList.toggle('follows', follows);
  }

  disable(why) {
    disableAll(this.node, why);
  }
}

export class TextField {
  constructor(field, { store, words, about }) {
    this.field = field;
    const frame = fieldFrame(field, words, null, 'field inline');
    this.node = frame.node;
    const listId = `l-${field.name}`;
    this.box = buildNode('input', { type: 'text', id: `f-${field.name}`, list: listId, spellcheck: 'false',
      autocomplete: 'off', autocapitalize: 'off', maxlength: about.limits.text,
      'aria-describedby': `e-${field.name}`, onchange: () => store.seal() });
    this.box.addEventListener('input', (event) => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.timer = null;
        store.set({ [field.name]: this.box.value.trim() }, { event });
      }, typingPause);
    });
    nameBy(this.box, frame.term);
    const options = (field.options || []).map((value) => buildNode('option', { value }));
    frame.body.append(this.box, buildNode('datalist', { id: listId }, ...options));
  }

  render(state) {
    const value = state[this.field.name];
    // Another field may change while this one is being typed.
    if (!this.timer && this.box.value.trim() !== value) this.box.value = value;
  }

  disable(why) {
    disableAll(this.node, why);
  }
}

export class ChoiceField {
  constructor(field, { store, words }) {
    this.field = field;
    const frame = fieldFrame(field, words, null, 'field inline');
    this.node = frame.node;
    this.select = buildNode('select', { id: `f-${field.name}`, 'aria-describedby': `e-${field.name}`,
      onchange: (event) => store.set({ [field.name]: this.select.value }, { event }) });
    fillSelect(this.select, field.options.map((option) => ({ value: option, label: option })));
    nameBy(this.select, frame.term);
    frame.body.append(this.select);
  }

  render(state) {
    this.select.value = String(state[this.field.name]);
  }

  disable(why) {
    disableAll(this.node, why);
  }
}

// Large or small steps have a limit at infinite dimension; the exponents between need a finite one.
export class ExponentField {
  constructor(field, { store, words }) {
    this.field = field;
    this.store = store;
    const frame = fieldFrame(field, words);
    this.node = frame.node;
    this.select = buildNode('select', { id: `s-${field.name}`,
      onchange: (event) => this.choose(event) });
    fillSelect(this.select, [{ value: '0.5', label: 'large: η = step · √N' }, { value: '0', label: 'small: η = step' },
      { value: 'other', label: 'other: η = step · N^…' }]);
    this.box = buildNode('input', { type: 'number', id: `f-${field.name}`, step: 'any',
      'aria-describedby': `e-${field.name}`, oninput: (event) => this.typed(event) });
    nameBy(this.select, frame.term);
    nameBy(this.box, frame.term);
    frame.body.append(this.select, this.box);
  }

  choose(event) {
    if (this.select.value === 'other') this.box.focus();
    else this.store.set({ [this.field.name]: Number(this.select.value) }, { event });
  }

  typed(event) {
    const value = numberIn(this.box);
    if (value !== null) this.store.set({ [this.field.name]: value }, { event });
  }

  render(state) {
    const value = state[this.field.name];
    const named = value === 0.5 || value === 0;
    const finite = state.dimension !== 'inf';
    this.select.value = named ? String(value) : 'other';
    this.select.options[2].disabled = !finite && named;
    writeNumber(this.box, value);
    this.box.disabled = !finite && named;
    this.box.title = this.box.disabled ? 'Another exponent needs a finite dimension.' : '';
    if (this.fixed) disableAll(this.node, this.fixed);
  }

  disable(why) {
    this.fixed = why;
  }
}

export class DimensionField {
  constructor(field, { store, words }) {
    this.field = field;
    this.store = store;
    this.last = 1000;
    this.check = buildNode('input', { type: 'checkbox', id: `inf-${field.name}`,
      onchange: (event) => store.set({ [field.name]: this.check.checked ? 'inf' : this.last }, { event }) });
    const frame = fieldFrame(field, words, buildNode('span', { class: 'check' },
      buildNode('label', {}, this.check, ' infinity'), words.questionMark(words.find('infinity'))));
    this.node = frame.node;
    this.box = buildNode('input', { type: 'number', id: `f-${field.name}`, step: 1, min: 1,
      'aria-describedby': `e-${field.name}`, oninput: (event) => this.typed(event) });
    nameBy(this.box, frame.term);
    frame.body.append(this.box);
  }

  typed(event) {
    const value = numberIn(this.box);
    if (value !== null) this.store.set({ [this.field.name]: value }, { event });
  }

  render(state) {
    const infinite = state[this.field.name] === 'inf';
    if (!infinite) this.last = state[this.field.name];
    this.check.checked = infinite;
    this.box.disabled = infinite;
    if (infinite) this.box.value = '';
    else writeNumber(this.box, state[this.field.name]);
    this.box.placeholder = infinite ? '∞' : '';
    if (this.fixed) disableAll(this.node, this.fixed);
  }

  disable(why) {
    this.fixed = why;
  }
}
