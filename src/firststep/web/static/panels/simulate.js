// Real networks onto the curve: how long it takes, run and cancel, and the points that belong to
// the curve.
import { buildNode, fillSelect, listenTo, nodeById, numberIn, numberText } from '../page/tools.js';
import { roundTo, sayNotice, spacedValues, writeNumber } from '../page/tools.js';
import { problemNames, problemOf } from '../state/state.js';
import { keepInTab, keptInTab } from '../state/kept.js';
import { errorsIn } from '../state/requests.js';
import { nameBy } from '../page/words.js';

const estimatePause = 200; // ms without a change before the time is estimated
const seriesLooks = [['orange', 'circle'], ['green', 'square'], ['pink', 'triangle'], ['red', 'diamond']];
const numberBoxes = ['sim_dimension', 'sim_replicates', 'sim_points', 'sim_seed'];

// Where the axis is simulated. Checked before anything is built: a link may ask for a thousand
// million points.
export function placesOf(state, most) {
  const count = state.sim_points;
  if (!Number.isInteger(count) || count < 1 || count > most) {
    throw new RangeError(`points must be a whole number from 1 to ${most}`);
  }
  return spacedValues(state.from, state.to, count, state.xscale).map((value) => roundTo(value, 6));
}

// Points belong to a curve: the same problem, whatever the range, the quantity or the place on the
// axis. Networks have a dimension of their own, so that of the theory does not matter.
export function curveKey(state) {
  return JSON.stringify({ ...problemOf(state), dimension: null, [state.axis]: null, axis: state.axis });
}

// A bad field of the problem has its own line already; the dimension here is that of the networks.
function ownErrors(error) {
  const { parameter, message } = errorsIn(error)[0];
  return problemNames.includes(parameter) && parameter !== 'dimension' ? '' : message;
}

export class SimulatePanel {
  constructor({ api, about, store, curve }) {
    Object.assign(this, { api, about, store, curve });
    this.series = about.offline ? [] : keptInTab('networks'); // { key, state, label, color, marker, points }
    this.running = null;
    fillSelect(nodeById('f-sim_model'), about.models.map(({ name, label }) => ({ value: name, label })));
    for (const name of numberBoxes) {
      const box = nodeById(`f-${name}`);
      box.addEventListener('input', (event) => {
        const value = numberIn(box);
        if (value !== null) store.set({ [name]: value }, { event });
      });
    }
    for (const name of [...numberBoxes, 'sim_model']) nameBy(nodeById(`f-${name}`), nodeById(`t-${name}`));
    listenTo('f-sim_model', 'change', (event) => store.set({ sim_model: event.target.value }, { event }));
    nodeById('run').addEventListener('click', () => this.run());
    nodeById('cancel').addEventListener('click', () => this.running && this.running.controller.abort());
    nodeById('clear-points').addEventListener('click', () => this.clear());
    if (about.offline) this.explainOffline();
  }

  explainOffline() {
    nodeById('simulate-form').replaceChildren(buildNode('p', { class: 'why' },
      'This page is an export: it has no machine to simulate on. '
      + 'Run “firststep explore” on your own machine for real networks.'));
  }

  body(state) {
    return { problem: problemOf(state), axis: state.axis, at: placesOf(state, this.about.limits.at),
      dimension: state.sim_dimension, replicates: state.sim_replicates, seed: state.sim_seed, model: state.sim_model };
  }

  render(state) {
    if (this.about.offline) return;
    this.showBelonging(state);
    for (const name of numberBoxes) writeNumber(nodeById(`f-${name}`), state[name]);
    nodeById('f-sim_model').value = state.sim_model;
    this.askEstimate(state);
  }

  askEstimate(state) {
    let body = null;
    let key = null;
    try {
      body = this.body(state);
      key = JSON.stringify(body);
    } catch (error) {
      nodeById('estimate').textContent = '';
      nodeById('e-simulate').textContent = error.message;
    }
    if (body && key === this.estimated) return;
    this.estimated = key;
    clearTimeout(this.timer);
    if (this.estimating) this.estimating.abort();
    if (!body) return;
    this.timer = setTimeout(async () => {
      const controller = new AbortController();
      this.estimating = controller;
      try {
        const answer = await this.api.estimate(body, controller.signal);
        if (this.estimating !== controller) return;
        nodeById('estimate').textContent = answer.text;
        nodeById('e-simulate').textContent = '';
      } catch (error) {
        if (error.name === 'AbortError' || this.estimating !== controller) return;
        nodeById('estimate').textContent = '';
        nodeById('e-simulate').textContent = ownErrors(error);
      }
    }, estimatePause);
  }

  async run() {
    if (this.running) return;
    const state = this.store.state;
    let body = null;
    try {
      body = this.body(state);
    } catch (error) {
      nodeById('e-simulate').textContent = error.message;
      return;
    }
    const series = this.open(state);
    const controller = new AbortController();
    this.running = { controller, series };
    this.failures = 0;
    this.showRunning(true);
    this.progress(0, null, 'starting…');
    const begun = performance.now();
    try {
      await this.api.simulate(body, controller.signal, (line) => this.heard(line, series));
    } catch (error) {
      const stopped = error.name === 'AbortError' || controller.signal.aborted;
      if (!stopped) nodeById('e-simulate').textContent = errorsIn(error)[0].message;
      const seconds = (performance.now() - begun) / 1000;
      const kept = `${series.points.length} points kept`;
      this.say(stopped ? `cancelled after ${numberText(seconds, 2)} s; ${kept}` : `stopped; ${kept}`);
    }
    this.running = null;
    this.showRunning(false);
    if (!series.points.length) this.series = this.series.filter((each) => each !== series);
    this.showBelonging(this.store.state);
  }

  // A run with the same settings replaces the older one; others are added.
  open(state) {
    const key = curveKey(state);
    const model = this.about.models.find((each) => each.name === state.sim_model).label;
    const label = `${model}, d = ${state.sim_dimension}`;
    this.series = this.series.filter((each) => !(each.key === key && each.label === label));
    const used = this.series.filter((each) => each.key === key);
    const look = seriesLooks.find(([color]) => !used.some((each) => each.color === color)) || seriesLooks[0];
    const series = { key, state, label, color: look[0], marker: look[1], points: [] };
    this.series.push(series);
    nodeById('e-simulate').textContent = '';
    return series;
  }

  heard(line, series) {
    if (line.kind === 'queued') {
      this.say(line.ahead ? `waiting for ${line.ahead} before` : 'waiting for the machine…');
    } else if (line.kind === 'started') {
      this.progress(0, line.total, `running on ${line.workers} ${line.workers === 1 ? 'core' : 'cores'}…`);
    } else if (line.kind === 'point') {
      series.points = [...series.points.filter((point) => point.x !== line.x), line];
      this.progress(line.done, line.total, `${line.done} of ${line.total} networks, ${series.points.length} points`);
      this.showBelonging(this.store.state);
    } else if (line.kind === 'failed') {
      this.failures += 1;
      nodeById('e-simulate').textContent = `At ${numberText(line.x)}: ${line.message}`;
    } else if (line.kind === 'error') {
      nodeById('e-simulate').textContent = line.message;
      this.say('');
    } else if (line.kind === 'done') {
      this.progress(1, 1, `${series.points.length} points in ${numberText(line.seconds, 3)} s`);
    }
  }

  say(text) {
    nodeById('progress-text').textContent = text;
  }

  progress(done, total, text) {
    const bar = nodeById('progress');
    bar.hidden = false;
    bar.max = total || 1;
    if (total === null) bar.removeAttribute('value');
    else bar.value = done;
    this.say(text);
  }

  showRunning(isRunning) {
    nodeById('run').disabled = isRunning;
    nodeById('cancel').disabled = !isRunning;
    if (!isRunning) nodeById('progress').hidden = true;
  }

  showBelonging(state) {
    const key = curveKey(state);
    const mine = this.series.filter((each) => each.key === key && each.points.length);
    const others = this.series.filter((each) => each.key !== key && each.points.length);
    const counted = (each) => each.label + each.points.map((point) => `${point.x}:${point.count}`).join();
    const signature = mine.map(counted).join('|') + mine.length;
    if (signature !== this.shown) {
      this.shown = signature;
      keepInTab('networks', this.series.filter((each) => each.points.length));
      this.curve.setSimulated(mine);
    }
    nodeById('clear-points').hidden = !this.series.some((each) => each.points.length);
    const notice = nodeById('sim-notice');
    notice.hidden = !others.length;
    if (!others.length) return;
    const { state: theirs } = others[others.length - 1];
    const { axis, from, to, xscale } = theirs;
    const back = () => this.store.set({ ...problemOf(theirs), axis, from, to, xscale });
    notice.replaceChildren('Simulated points of other settings are hidden. ',
      buildNode('button', { type: 'button', class: 'quiet', onclick: back }, 'Back to them'));
  }

  clear() {
    this.series = this.series.filter((each) => this.running && each === this.running.series);
    for (const each of this.series) each.points = [];
    keepInTab('networks', []);
    this.shown = null;
    this.showBelonging(this.store.state);
    if (!this.running) this.say('');
    sayNotice('');
  }
}
