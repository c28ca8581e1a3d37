// What a person takes away: code, a command, an experiment file, pictures, tables, the address.
import { csvOf, savePNG, saveText } from '../page/save.js';
import { listenTo, nodeById, numberText, sayNotice } from '../page/tools.js';
import { problemNames, problemOf } from '../state/state.js';
import { errorsIn } from '../state/requests.js';
import { placesOf } from './simulate.js';

const takeTitles = { python: 'As Python', command: 'As a command line', toml: 'As an experiment file (TOML)' };
const takeHints = {
  python: 'Run it with Python where firststep is installed.',
  command: 'Run it in a terminal where firststep is installed. It predicts this one problem, not the curve.',
  toml: 'Save it as curve.toml and run “firststep sweep run curve.toml”.',
};

const mapHints = {
  python: ' It computes the curve of the current problem, not the phase diagram.',
  command: ' Nor does it compute the phase diagram.',
  toml: ' It computes the curve of the current problem, not the phase diagram.',
};
const networkColumns = ['sim_dimension', 'sim_replicates', 'sim_seed'];

// The fields of a problem that a table does not have as axes; alpha0 may follow alpha, which may be
// an axis.
function heldFields(problem, axes) {
  const names = problemNames.filter((name) => !axes.includes(name));
  const follows = (name) => name === 'alpha0' && problem.alpha0 === null;
  const at = (places) => names.map((name) => {
    const source = follows(name) ? 'alpha' : name;
    return axes.includes(source) ? places[axes.indexOf(source)] : problem[source];
  });
  return { names, at };
}

// The problem in a line, for a picture: what the axes do not show.
export function captionOf(state, about) {
  const axes = state.tab === 'map' ? [state.map_x, state.map_y] : [state.axis];
  const isTold = ({ name, later }) => !axes.includes(name) && !(later && state[name] === about.defaults[name]);
  const named = ['number', 'activation', 'readout', 'dimension']; // by their letters
  const told = about.fields.filter(isTold).map(({ name, label, symbol, kind }) => {
    const value = name === 'alpha0' && state.alpha0 === null ? 'same as α' : state[name];
    const text = typeof value === 'number' ? numberText(value) : value === 'inf' ? '∞' : value;
    return `${symbol && named.includes(kind) && name !== 'step_exponent' ? symbol.split(' ')[0] : label} = ${text}`;
  });
  return `${told.join(', ')}. firststep ${about.version}`;
}

// Columns say what they hold, and every row says of which problem it is, so that a table needs no
// other file.
export function curveTable(curve, version) {
  const { frame, drawnState: state, chart, simulated } = curve;
  const held = heldFields(problemOf(state), [frame.axis]);
  const ridge = held.names.indexOf('ridge');
  const seen = new Map();
  const rows = chart.toRows().slice(1).map(([series, x, y, ...errors]) => {
    const fields = held.at([x]);
    const line = chart.spec.lines.find((each) => each.label === series);
    const networks = simulated.find((each) => each.label === series);
    const place = seen.get(series) || 0;
    seen.set(series, place + 1);
    if (line && line.extra && line.extra.ridge && ridge >= 0) fields[ridge] = line.extra.ridge[place];
    // Networks have their own dimension; that of the problem is the theory's.
    if (networks) fields[held.names.indexOf('dimension')] = networks.state.sim_dimension;
    return [series, x, y, ...errors, ...fields, ...networkColumns.map((name) => networks && networks.state[name]), version];
  });
  const errors = ['standard_error', 'model_error'];
  const names = ['series', frame.axis, frame.quantity, ...errors, ...held.names, ...networkColumns, 'version'];
  return [names, ...rows];
}

export function mapTable({ current, heat }, version) {
  const { problem, x, y, quantity } = current.request;
  const held = heldFields(problem, [x.axis, y.axis]);
  const rows = heat.toRows().slice(1);
  const names = [x.axis, y.axis, quantity, ...held.names, 'version'];
  return [names, ...rows.map(([across, up, value]) => [across, up, value, ...held.at([across, up]), version])];
}

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
    listenTo('save-svg', 'click', () => save('svg', this.picture(), 'image/svg+xml'));
    listenTo('save-csv', 'click', () => this.hasDrawing() && save('csv', csvOf(this.table()), 'text/csv'));
    listenTo('save-png', 'click', () => this.savePicture());
  }

  drawing() {
    return this.store.state.tab === 'map' ? this.map.heat : this.curve.chart;
  }

  hasDrawing() {
    const isThere = Boolean(this.store.state.tab === 'map' ? this.map.current && this.map.current.x : this.curve.frame);
    if (!isThere) sayNotice('Nothing is drawn yet.');
    return isThere;
  }

  table() {
    const { version } = this.about;
    return this.store.state.tab === 'map' ? mapTable(this.map, version) : curveTable(this.curve, version);
  }

  picture() {
    this.beforeLink(); // the address may be a moment behind
    return this.drawing().toSVG(this.source(), captionOf(this.store.state, this.about));
  }

  // Where a picture comes from; a token of the address is nobody else's.
  source() {
    return `firststep ${this.about.version}, ${location.href.replace(/\/~[^/]*\//, '/')}`;
  }

  fileName() {
    const { tab, quantity, axis, map_quantity: colour, map_x: across, map_y: up } = this.store.state;
    return tab === 'map' ? `firststep-${colour}-${across}-${up}` : `firststep-${quantity}-${axis}`;
  }

  async savePicture() {
    try {
      const picture = this.picture();
      await savePNG(`${this.fileName()}.png`, picture, { Description: captionOf(this.store.state, this.about),
        Source: this.source(), Software: `firststep ${this.about.version}` });
    } catch (error) {
      sayNotice(`The picture could not be saved: ${error.message}`);
    }
  }

  async showText(kind) {
    const { state } = this.store;
    const area = nodeById('take-text');
    nodeById('take-title').textContent = takeTitles[kind];
    nodeById('take-hint').textContent = takeHints[kind] + (state.tab === 'map' ? mapHints[kind] : '');
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
      simulate: { at: placesOf(state, this.about.limits.at), dimension: state.sim_dimension,
        replicates: state.sim_replicates, seed: state.sim_seed, model: state.sim_model },
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
