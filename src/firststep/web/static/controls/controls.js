// The column of controls: presets with their captions, undo and redo, and the fields of the problem
// in groups.
import { buildNode, nodeById } from '../page/tools.js';
import { problemNames, sameState } from '../state/state.js';
import { isIdle, lawName, limitOf } from '../state/meaning.js';
import { ChoiceField, DimensionField, ExponentField, NumberField, TextField } from './fields.js';
import { Gallery } from './gallery.js';
import { LawField, SwitchField } from './laws.js';

export const offlineReason = 'This page is an export with a fixed grid of answers: sliders take its values, '
  + 'and what is grey is fixed. Run “firststep explore” to change everything.';

function fieldControl(field, tools) {
  const own = { ...tools, grid: tools.about.grid ? tools.about.grid[field.name] : null };
  if (field.name === 'step_exponent') return new ExponentField(field, own);
  if (field.kind === 'dimension') return new DimensionField(field, own);
  if (field.kind === 'choice') return new ChoiceField(field, own);
  if (field.kind === 'law') return new LawField(field, own);
  if (field.kind === 'switch') return new SwitchField(field, own);
  if (field.kind === 'number') return new NumberField(field, own);
  return new TextField(field, own);
}

export class Controls {
  constructor(tools) {
    this.store = tools.store;
    this.about = tools.about;
    this.chosen = null;
    this.fields = [];
    const host = nodeById('fields');
    const named = new Map(tools.about.fields.map((field) => [field.name, field]));
    // On what has no meaning now, beneath the field whose law says so.
    this.idle = new Map(Object.keys(tools.about.rules.limits)
      .map((by) => [by, buildNode('p', { class: 'why', hidden: true })]));
    for (const { title, fields } of tools.about.groups) {
      const set = buildNode('fieldset', {}, buildNode('legend', {}, title));
      for (const field of fields.map((name) => named.get(name))) {
        const control = fieldControl(field, tools);
        const isFixed = tools.about.offline && (tools.about.grid[field.name] || []).length < 2;
        if (isFixed) control.disable(offlineReason);
        this.fields.push(control);
        set.append(control.node);
        if (this.idle.has(field.name)) set.append(this.idle.get(field.name));
      }
      host.append(set);
    }
    this.preparePresets();
    this.prepareHistory();
    if (tools.about.offline) host.before(buildNode('p', { class: 'why' }, offlineReason));
  }

  preparePresets() {
    const select = nodeById('preset');
    const presets = this.about.presets || [];
    select.append(buildNode('option', { value: '' }, 'Choose a preset…'));
    for (const group of new Set(presets.map((preset) => preset.group))) {
      const options = presets.filter((preset) => preset.group === group)
        .map((preset) => buildNode('option', { value: preset.name }, preset.label));
      select.append(buildNode('optgroup', { label: group }, ...options));
    }
    select.disabled = !presets.length || Boolean(this.about.offline && !this.about.grid.preset);
    select.addEventListener('change', (event) => {
      const preset = presets.find((each) => each.name === select.value);
      if (!preset) return;
      this.choosePreset(preset, event);
    });
    const choose = (preset, event) => this.choosePreset(preset, event);
    nodeById('gallery').hidden = select.disabled;
    if (!select.disabled) this.gallery = new Gallery(presets, choose);
  }

  choosePreset(preset, event) {
    this.chosen = preset;
    this.store.seal();
    this.store.set({ ...this.about.defaults, tab: 'curve', ...preset.state }, { event });
    this.store.seal();
    this.showPreset(this.store.state);
  }

  // A link or an undo may bring a preset back: it is recognised by its state.
  showPreset(state) {
    const telling = [...problemNames, 'axis', 'quantity'];
    const isPreset = (preset) => sameState(state, { ...this.about.defaults, ...preset.state }, telling);
    if (!this.chosen || !isPreset(this.chosen)) this.chosen = (this.about.presets || []).find(isPreset) || this.chosen;
    const caption = nodeById('preset-caption');
    if (state.story) this.chosen = null; // its screens are states of their own
    if (!this.chosen) {
      nodeById('preset').value = '';
      caption.textContent = '';
      return;
    }
    const kept = isPreset(this.chosen);
    nodeById('preset').value = kept ? this.chosen.name : '';
    caption.textContent = kept ? this.chosen.caption : `Changed from “${this.chosen.label}”.`;
  }

  prepareHistory() {
    nodeById('undo').addEventListener('click', () => this.store.undo());
    nodeById('redo').addEventListener('click', () => this.store.redo());
    document.addEventListener('keydown', (event) => {
      const inText = event.target.matches && event.target.matches('input[type=text], input[type=number], textarea');
      if (inText || !(event.ctrlKey || event.metaKey) || event.altKey) return;
      const letter = event.key.toLowerCase();
      if (letter === 'z' && !event.shiftKey) this.store.undo();
      else if ((letter === 'z' && event.shiftKey) || letter === 'y') this.store.redo();
      else return;
      event.preventDefault();
    });
  }

  // What has no meaning with these labels or inputs is not in the way, and is said to be so.
  showIdle(state) {
    const idle = this.fields.filter(({ field }) => isIdle(field.name, state, this.about));
    for (const control of this.fields) control.node.hidden = idle.includes(control);
    const limits = idle.map(({ field }) => ({ field, ...limitOf(field.name, state, this.about) }));
    for (const [by, line] of this.idle) {
      const reasons = limits.filter((limit) => limit.by === by)
        .map(({ field, why }) => buildNode('span', { title: why }, field.label));
      const apart = reasons.flatMap((reason, place) => (place ? [', ', reason] : [reason]));
      line.hidden = !reasons.length;
      line.replaceChildren(`With ${by} ${lawName(state[by])} there is no choice of `, ...apart, '.');
    }
  }

  render(state) {
    for (const field of this.fields) field.render(state);
    this.showIdle(state);
    nodeById('undo').disabled = !this.store.past.length;
    nodeById('redo').disabled = !this.store.future.length;
    this.showPreset(state);
  }
}
