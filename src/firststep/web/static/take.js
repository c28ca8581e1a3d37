// What a person takes away: code, a command, an experiment file, pictures, tables, the address.
import { csvOf, savePNG, saveText } from './save.js';
import { listenTo, nodeById, sayNotice } from './page.js';
import { problemOf } from './state.js';
import { errorsIn } from './requests.js';
import { placesOf } from './simulate.js';

const takeTitles = { python: 'As Python', command: 'As a command line', toml: 'As an experiment file (TOML)' };
const takeHints = {
  python: 'Run it with Python where firststep is installed.',
  command: 'Run it in a terminal where firststep is installed.',
  toml: 'Save it as curve.toml and run “firststep sweep run curve.toml”.',
};

// The clipboard needs a secure page; selecting the text leaves Ctrl+C to the person.
async function copyText(text, area, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = 'Copied.';
  } catch {
    area.focus();
    area.select();
    status.textContent = 'Selected: press Ctrl+C (or ⌘C) to copy.';
  }
}

export class TakePanel {
  constructor({ api, about, store, curve, map }) {
    Object.assign(this, { api, about, store, curve, map });
    for (const kind of Object.keys(takeTitles)) listenTo(`take-${kind}`, 'click', () => this.showText(kind));
    const area = nodeById('take-text');
    listenTo('take-copy', 'click', () => copyText(area.value, area, nodeById('take-status')));
    listenTo('copy-link', 'click', () => this.copyLink());
    const save = (kind, text, type) => saveText(`${this.fileName()}.${kind}`, text, type);
    listenTo('save-svg', 'click', () => save('svg', this.drawing().toSVG(), 'image/svg+xml'));
    listenTo('save-csv', 'click', () => save('csv', csvOf(this.drawing().toRows()), 'text/csv'));
    listenTo('save-png', 'click', () => this.savePicture());
  }

  drawing() {
    return this.store.state.tab === 'map' ? this.map.heat : this.curve.chart;
  }

  fileName() {
    const { tab, quantity, axis, map_quantity: colour, map_x: across, map_y: up } = this.store.state;
    return tab === 'map' ? `firststep-${colour}-${across}-${up}` : `firststep-${quantity}-${axis}`;
  }

  async savePicture() {
    try {
      await savePNG(`${this.fileName()}.png`, this.drawing().toSVG());
    } catch (error) {
      sayNotice(`The picture could not be saved: ${error.message}`);
    }
  }

  async showText(kind) {
    const { state } = this.store;
    const area = nodeById('take-text');
    nodeById('take-title').textContent = takeTitles[kind];
    nodeById('take-hint').textContent = takeHints[kind];
    nodeById('take-status').textContent = '';
    area.value = 'asking the library…';
    nodeById('take-dialog').showModal();
    try {
      const answer = await this.api.take(this.question(state));
      area.value = answer[kind];
      area.rows = Math.min(20, Math.max(3, answer[kind].split('\n').length + 1));
    } catch (error) {
      area.value = '';
      nodeById('take-status').textContent = errorsIn(error)[0].message;
    }
  }

  question(state) {
    return {
      problem: problemOf(state), axis: state.axis, from: state.from, to: state.to, scale: state.xscale,
      points: Math.min(60, this.about.limits.points),
      simulate: { at: placesOf(state), dimension: state.sim_dimension, replicates: state.sim_replicates,
        seed: state.sim_seed, model: state.sim_model },
    };
  }

  async copyLink() {
    this.beforeLink(); // the address may be a moment behind
    try {
      await navigator.clipboard.writeText(location.href);
      sayNotice('The link to this view is copied.');
    } catch {
      const area = nodeById('take-text');
      nodeById('take-title').textContent = 'Link to this view';
      nodeById('take-hint').textContent = 'It holds every setting.';
      area.value = location.href;
      area.rows = 4;
      nodeById('take-dialog').showModal();
      copyText(location.href, area, nodeById('take-status'));
    }
  }
}
