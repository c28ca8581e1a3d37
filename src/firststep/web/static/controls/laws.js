// Laws: a name, and for some of them numbers or a text behind colons, huber:1. What labels or inputs
// do not allow is grey and says why.
import { buildNode, fillSelect, numberIn, numberText, writeNumber } from '../page/tools.js';
import { lawName, limitOf } from '../state/meaning.js';
import { FieldControl } from './fields.js';
import { SliderScale } from './sliders.js';
import { nameBy } from '../page/words.js';

const textPause = 300; // ms: a mixture is looked at when the hand rests

function parameterText(text) {
  const [, ...rest] = String(text).split(':');
  return rest.join(':');
}

// The slider and the box of a number, or the box of the text, that a law has behind its name. The
// first is called after its law, others have their place besides.
class LawParameter {
  constructor(owner, law, parameter, place) {
    Object.assign(this, { owner, law, place, timer: null });
    this.name = `${owner.field.name}-${law}${place ? `-${place}` : ''}`;
    this.isNumber = parameter.low !== null;
    this.symbol = buildNode('label', { class: 'soft', for: `p-${this.name}` }, parameter.symbol);
    this.box = buildNode('input', { id: `p-${this.name}`, type: this.isNumber ? 'number' : 'text',
      step: 'any', spellcheck: 'false', autocomplete: 'off', maxlength: owner.about.limits.text,
      'aria-describedby': `e-${owner.field.name}`, oninput: (event) => this.typed(event), onchange: () => owner.store.seal() });
    this.node = buildNode('div', { class: 'field-body parameter' }, this.symbol);
    if (this.isNumber) this.addSlider(parameter);
    this.node.append(this.box);
  }

  addSlider(parameter) {
    const { owner } = this;
    this.scale = new SliderScale(parameter);
    this.slider = buildNode('input', { id: `s-${this.name}`, type: 'range', min: 0, max: this.scale.max,
      step: 1, onchange: (event) => owner.store.seal(event),
      oninput: (event) => this.put(this.scale.valueAt(Number(this.slider.value)), { event, live: true }) });
    this.slider.setAttribute('aria-label', `${owner.field.label}, ${parameter.symbol}`);
    this.node.append(this.slider);
  }

  put(value, how) {
    this.owner.setPart(this.law, this.place, value, how);
  }

  typed(event) {
    clearTimeout(this.timer);
    if (this.isNumber) {
      if (numberIn(this.box) !== null) this.put(numberIn(this.box), { event });
      return;
    }
    this.timer = setTimeout(() => {
      this.timer = null;
      this.put(this.box.value.trim(), { event });
    }, textPause);
  }

  render(text) {
    if (!this.isNumber) {
      if (!this.timer && this.box.value.trim() !== text) this.box.value = text;
      return;
    }
    const value = Number(text);
    writeNumber(this.box, value);
    if (this.scale.valueAt(Number(this.slider.value)) !== value) this.slider.value = String(this.scale.positionOf(value));
    this.slider.setAttribute('aria-valuetext', numberText(value));
  }
}

export class LawField extends FieldControl {
  constructor(field, tools) {
    super(field, tools, null, 'field inline law');
    this.select = this.addMain('select', { onchange: (event) => this.choose(event) });
    fillSelect(this.select, field.options.map((name) => ({ value: name, label: name })));
    this.parameters = new Map(Object.entries(field.parameters).map(([law, several]) => (
      [law, several.map((parameter, place) => new LawParameter(this, law, parameter, place))])));
    for (const { node } of [...this.parameters.values()].flat()) this.error.before(node);
  }

  // A text may have colons of its own; numbers have none.
  partsOf(law, text) {
    return this.parameters.get(law).length > 1 ? text.split(':') : [text];
  }

  setPart(law, place, value, how) {
    const parts = this.partsOf(law, parameterText(this.store.state[this.field.name]));
    parts[place] = String(value);
    this.set([law, ...parts].join(':'), how);
  }

  // A law that comes back brings its last number.
  choose(event) {
    const law = this.select.value;
    const first = (this.field.parameters[law] || []).map((parameter) => parameter.default);
    const text = (this.last || {})[law] || first.join(':');
    this.set(text ? `${law}:${text}` : law, { event });
  }

  render(state) {
    const text = String(state[this.field.name]);
    const limit = limitOf(this.field.name, state, this.about);
    this.select.value = lawName(text);
    for (const option of this.select.options) {
      option.disabled = Boolean(limit) && !limit.allowed.includes(option.value);
      option.title = option.disabled ? limit.why : '';
    }
    for (const [law, several] of this.parameters) {
      const isChosen = law === lawName(text);
      for (const parameter of several) parameter.node.hidden = !isChosen;
      if (!isChosen) continue;
      const parts = this.partsOf(law, parameterText(text));
      several.forEach((parameter, place) => parameter.render(parts[place] ?? ''));
      this.last = { ...this.last, [law]: parameterText(text) };
    }
    this.keepFixed();
  }
}

export class SwitchField extends FieldControl {
  constructor(field, tools) {
    super(field, tools, null, 'field inline');
    this.check = this.addMain('input', { type: 'checkbox', onchange: (event) => this.set(this.check.checked, { event }) });
  }

  render(state) {
    this.check.checked = state[this.field.name] === true;
    this.keepFixed();
  }
}
