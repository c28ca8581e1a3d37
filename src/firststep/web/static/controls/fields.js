// One control per field of the problem: slider with number box, text with suggestions, choice,
// dimension.
import { buildNode, fillSelect, numberIn, numberText, writeNumber } from '../page/tools.js';
import { settled } from '../state/meaning.js';
import { SliderScale } from './sliders.js';
import { nameBy } from '../page/words.js';

const typingPause = 120; // ms: an expression is looked at when the hand rests, not after every letter

// What the controls have in common: the word that names them, a place beneath it, a line for errors.
export class FieldControl {
  constructor(field, { store, words, about }, extra = null, look = 'field') {
    Object.assign(this, { field, store, about, fixed: '' });
    const title = [field.label, field.symbol && field.symbol !== field.label ? buildNode('i', {}, field.symbol) : null];
    this.term = words.term('', { ...field, anchor: field.anchor || 'fields' }, `t-${field.name}`);
    this.term.append(...title.filter(Boolean).flatMap((part, index) => (index ? [' ', part] : [part])));
    this.error = buildNode('p', { class: 'error', id: `e-${field.name}`, 'aria-live': 'polite' });
    this.body = buildNode('div', { class: 'field-body' });
    const top = buildNode('div', { class: 'field-head' }, this.term, extra);
    this.node = buildNode('div', { class: look, 'data-field': field.name }, top, this.body, this.error);
  }

  add(tag, letter, properties) {
    const control = buildNode(tag, { id: `${letter}-${this.field.name}`, ...properties });
    nameBy(control, this.term);
    this.body.append(control);
    return control;
  }

  // The control whose errors are told.
  addMain(tag, properties) {
    return this.add(tag, 'f', { 'aria-describedby': `e-${this.field.name}`, ...properties });
  }

  addNumberBox(properties) {
    return this.addMain('input', { type: 'number', step: 'any', oninput: (event) => this.typed(event), ...properties });
  }

  typed(event) {
    const value = numberIn(this.box);
    if (value !== null) this.set(value, { event });
  }

  // With a change goes what would no longer fit it.
  set(value, how) {
    this.store.set(settled(this.store.state, { [this.field.name]: value }, this.about), how);
  }

  disable(why) {
    this.fixed = why;
    this.keepFixed();
  }

  keepFixed() {
    if (!this.fixed) return;
    for (const control of this.node.querySelectorAll('input, select')) {
      control.disabled = true;
      control.title = this.fixed;
    }
  }
}

// A checkbox beside the name of a field.
function besideName(check, label, words, word) {
  const mark = words.questionMark(words.find(word));
  return buildNode('span', { class: 'check' }, buildNode('label', {}, check, label), mark);
}

export class NumberField extends FieldControl {
  constructor(field, tools) {
    const { store, words, grid } = tools;
    const same = field.optional ? buildNode('input', { type: 'checkbox', id: `same-${field.name}`,
      disabled: Boolean(grid), onchange: () => this.toggleSame() }) : null;
    super(field, tools, same && besideName(same, ' same as α', words, 'same_as_alpha'));
    this.same = same;
    this.scale = new SliderScale(field, grid);
    this.slider = this.add('input', 's', { type: 'range', min: 0, max: this.scale.max, step: 1,
      oninput: (event) => this.slid(event), onchange: (event) => store.seal(event) });
    this.box = this.addNumberBox({ inputmode: 'decimal', onchange: () => store.seal() });
  }

  slid(event) {
    const value = this.scale.valueAt(Number(this.slider.value));
    this.forgive();
    this.set(value, { event, live: true });
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
    this.set(this.scale.grid ? this.scale.nearest(value) : value, { event });
  }

  toggleSame() {
    this.set(this.same.checked ? null : this.store.state.alpha);
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
    this.keepFixed();
  }
}

export class TextField extends FieldControl {
  constructor(field, tools) {
    const { store, about } = tools;
    super(field, tools, null, 'field inline');
    const list = `l-${field.name}`;
    this.box = this.addMain('input', { type: 'text', list, spellcheck: 'false', autocomplete: 'off',
      autocapitalize: 'off', maxlength: about.limits.text,
      oninput: (event) => this.typed(event), onchange: () => store.seal() });
    const options = (field.options || []).map((value) => buildNode('option', { value }));
    this.body.append(buildNode('datalist', { id: list }, ...options));
  }

  typed(event) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = null;
      this.set(this.box.value.trim(), { event });
    }, typingPause);
  }

  render(state) {
    const value = state[this.field.name];
    // Another field may change while this one is being typed.
    if (!this.timer && this.box.value.trim() !== value) this.box.value = value;
  }
}

export class ChoiceField extends FieldControl {
  constructor(field, tools) {
    super(field, tools, null, 'field inline');
    this.select = this.addMain('select', { onchange: (event) => this.set(this.select.value, { event }) });
    fillSelect(this.select, field.options.map((option) => ({ value: option, label: option })));
  }

  render(state) {
    this.select.value = String(state[this.field.name]);
  }
}

const middleExponent = 0.25; // halfway, to begin with

// Large and small steps have names; of the exponents between, the server says which have a limit.
export class ExponentField extends FieldControl {
  constructor(field, own) {
    super(field, own);
    this.select = this.add('select', 's', { onchange: (event) => this.choose(event) });
    fillSelect(this.select, [{ value: '0.5', label: 'large: η = η̃ √N' }, { value: '0', label: 'small: η = η̃' },
      { value: 'other', label: 'between' }]);
    this.box = this.addNumberBox({ min: 0, max: 1, step: 0.05 });
  }

  choose(event) {
    this.set(this.select.value === 'other' ? middleExponent : Number(this.select.value), { event });
  }

  render(state) {
    const value = state[this.field.name];
    const named = value === 0.5 || value === 0;
    this.select.value = named ? String(value) : 'other';
    writeNumber(this.box, value);
    this.keepFixed();
  }
}

export class DimensionField extends FieldControl {
  constructor(field, tools) {
    const check = buildNode('input', { type: 'checkbox', id: `inf-${field.name}`,
      onchange: (event) => this.set(check.checked ? 'inf' : this.last, { event }) });
    super(field, tools, besideName(check, ' infinity', tools.words, 'infinity'));
    this.check = check;
    this.last = 1000;
    this.box = this.addNumberBox({ step: 1, min: 1 });
  }

  render(state) {
    const infinite = state[this.field.name] === 'inf';
    if (!infinite) this.last = state[this.field.name];
    this.check.checked = infinite;
    this.box.disabled = infinite;
    if (infinite) this.box.value = '';
    else writeNumber(this.box, state[this.field.name]);
    this.box.placeholder = infinite ? '∞' : '';
    this.keepFixed();
  }
}
