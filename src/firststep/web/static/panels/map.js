// The phase diagram: rows come in an order that halves their distance, and are drawn as they come.
import { HeatMap } from '../charts/heat.js';
import { buildNode, fillSelect, listenTo, nodeById } from '../page/tools.js';
import { numberIn, numberText, roundTo, writeNumber } from '../page/tools.js';
import { axisOption, axisTitle, shortSymbol } from './axes.js';
import { isSlow, offeredIn } from '../state/meaning.js';
import { rowBatches } from '../state/parts.js';
import { fieldValue, problemOf } from '../state/state.js';
import { ComputingSign, errorsIn } from '../state/requests.js';
import { nearestIn } from '../controls/sliders.js';
import { nameBy } from '../page/words.js';

// One more than a power of two, so that halving the distance of rows ends evenly.
const mapRows = 33; // and as many columns
const slowRows = 17; // where every point takes long: a quarter of the points
const largestBatch = 6; // rows of one question, so that the map is seen to grow
const rememberedMaps = 8; // for those who go back and forth

// Blue is better in all of them: a small risk, a large gain.
const mapLooks = {
  error_rate: { title: 'Error rate', palette: 'sequential', colorScale: 'linear', contours: [] },
  error_gain: { title: 'Gain in error rate over random features', palette: 'diverging-reversed', colorScale: 'linear',
    contours: [{ value: 0, label: 'gain 0', color: 'black', dash: '' }] },
  test_loss: { title: 'Test loss', palette: 'sequential', colorScale: 'log', contours: [] },
  risk: { title: 'Risk', palette: 'sequential', colorScale: 'log', contours: [] },
  gain: { title: 'Gain over random features', palette: 'diverging-reversed', colorScale: 'linear',
    contours: [{ value: 0, label: 'gain 0', color: 'black', dash: '' }] },
  ratio: { title: 'Risk / kernel lower bound', palette: 'diverging', colorScale: 'log',
    contours: [{ value: 1, label: 'kernel bound', color: 'black', dash: '' }] },
};

export class MapPanel {
  constructor({ api, about, store, board }) {
    Object.assign(this, { api, about, store, board });
    this.fields = new Map(about.fields.map((field) => [field.name, field]));
    this.sign = new ComputingSign(nodeById('map-card'));
    this.heat = new HeatMap(nodeById('map-chart'), { label: 'Phase diagram', onPick: (x, y) => this.picked(x, y) });
    this.memory = new Map();
    this.current = null;
    const options = about.map_axes.map((name) => ({ value: name, label: axisOption(this.fields.get(name)) }));
    for (const name of ['map_x', 'map_y']) {
      fillSelect(nodeById(`f-${name}`), options);
      listenTo(`f-${name}`, 'change', (event) => this.changeAxis(name, event));
      nameBy(nodeById(`f-${name}`), nodeById(`t-${name}`));
      for (const end of ['from', 'to']) {
        const box = nodeById(`f-${name}_${end}`);
        box.addEventListener('change', (event) => {
          const value = numberIn(box);
          if (value !== null) store.set({ [`${name}_${end}`]: value }, { event });
        });
      }
    }
    listenTo('f-map_quantity', 'change', (event) => store.set({ map_quantity: event.target.value }, { event }));
    nameBy(nodeById('f-map_quantity'), nodeById('t-map_quantity'));
    listenTo('map-to-curve', 'click', () => store.set({ tab: 'curve' }));
  }

  changeAxis(name, event) {
    const other = name === 'map_x' ? 'map_y' : 'map_x';
    const { state } = this.store;
    const axis = event.target.value;
    const field = this.fields.get(axis);
    const changes = { [name]: axis, [`${name}_from`]: field.low, [`${name}_to`]: field.high };
    if (axis === this.about.defaults[name]) {
      for (const end of ['from', 'to']) changes[`${name}_${end}`] = this.about.defaults[`${name}_${end}`];
    }
    const grid = this.about.grid && this.about.grid[axis];
    if (grid) Object.assign(changes, { [`${name}_from`]: Math.min(...grid), [`${name}_to`]: Math.max(...grid) });
    // The same field twice makes no plane: the other axis takes the field that was here.
    if (axis === state[other]) {
      for (const end of ['', '_from', '_to']) {
        changes[`${other}${end}`] = state[`${name}${end}`];
        changes[`${name}${end}`] = state[`${other}${end}`];
      }
    }
    this.store.set(changes, { event });
  }

  picked(x, y) {
    const { state } = this.store;
    this.store.seal();
    const place = (axis, value) => (this.about.grid ? nearestIn(this.about.grid[axis], value) : roundTo(value, 4));
    this.store.set({ [state.map_x]: place(state.map_x, x), [state.map_y]: place(state.map_y, y) });
  }

  request(state) {
    const { defaults } = this.about;
    const problem = { ...problemOf(state), [state.map_x]: defaults[state.map_x], [state.map_y]: defaults[state.map_y] };
    const axis = (name, count) => ({ axis: state[name], from: state[`${name}_from`], to: state[`${name}_to`],
      scale: this.scaleOf(state, name), count });
    const count = isSlow(state, this.about) ? slowRows : mapRows;
    return { problem, x: axis('map_x', count), y: axis('map_y', count), quantity: state.map_quantity };
  }

  scaleOf(state, name) {
    return this.fields.get(state[name]).scale === 'log' && state[`${name}_from`] > 0 ? 'log' : 'linear';
  }

  refresh(state) {
    this.render(state);
    const request = this.request(state);
    const key = JSON.stringify(request);
    if (this.current && this.current.key === key) {
      this.draw();
      return;
    }
    if (this.current) this.current.controller.abort();
    this.board.clear('map');
    const known = this.memory.get(key);
    const none = Array.from({ length: request.y.count }, () => null);
    this.current = known || { key, request, x: null, y: null, values: none, done: 0, notes: [] };
    this.current.controller = new AbortController();
    if (!this.current.x) nodeById('map-chart').classList.add('outdated');
    this.draw();
    if (this.current.done < request.y.count) this.fill(this.current);
  }

  // Leaving the tab frees the machine; coming back goes on where it stopped.
  rest() {
    if (!this.current) return;
    this.current.controller.abort();
    this.current = null;
    this.sign.set('map', false);
  }

  async fill(job) {
    const { signal } = job.controller;
    const { count } = job.request.y;
    const most = count === slowRows ? 1 : Math.min(largestBatch, Math.floor(this.about.limits.map_points / count));
    const missing = rowBatches(count, Math.max(1, most)).map((rows) => rows.filter((row) => job.values[row] === null));
    const queue = this.about.offline ? [[0]] : missing.filter((rows) => rows.length);
    const isCurrent = () => !signal.aborted && this.current === job;
    const lane = async () => {
      while (queue.length && isCurrent()) {
        const answer = await this.api.map({ ...job.request, rows: queue.shift() }, signal);
        if (isCurrent()) this.filled(job, answer);
      }
    };
    this.sign.set('map', true);
    try {
      // Two at a time: a row that is hard to solve does not keep the others waiting.
      await Promise.all([lane(), lane()]);
      if (isCurrent()) this.sign.set('map', false);
    } catch (error) {
      if (error.name === 'AbortError' || !isCurrent()) return;
      job.controller.abort();
      this.sign.set('map', false);
      nodeById('map-chart').classList.add('outdated');
      this.board.report('map', errorsIn(error), 'e-map');
    }
  }

  filled(job, answer) {
    job.x = answer.x;
    job.y = answer.y;
    answer.rows.forEach((row, index) => { job.values[row] = answer.values[index]; });
    job.done += answer.rows.length;
    // An exported page has a grid of its own and gives all of it at once.
    if (this.about.offline) [job.values, job.done] = [answer.values, job.request.y.count];
    for (const note of answer.notes || []) if (!job.notes.includes(note)) job.notes.push(note);
    this.remember(job);
    this.sign.renew();
    nodeById('map-chart').classList.remove('outdated');
    this.draw();
  }

  remember(job) {
    this.memory.set(job.key, job);
    if (this.memory.size > rememberedMaps) this.memory.delete(this.memory.keys().next().value);
  }

  draw() {
    const job = this.current;
    if (!job || !job.x) return;
    const { state } = this.store;
    const look = mapLooks[state.map_quantity];
    const empty = job.x.map(() => null);
    const axis = (name, values) => (
      { label: axisTitle(this.fields.get(state[name])), scale: this.scaleOf(state, name), values });
    this.heat.update({
      x: axis('map_x', job.x), y: axis('map_y', job.y), values: job.values.map((row) => row || empty),
      title: look.title, format: (value) => numberText(value, 3), palette: look.palette, colorScale: look.colorScale,
      range: this.rangeOf(job, look), contours: look.contours,
      marker: { x: fieldValue(state, state.map_x), y: fieldValue(state, state.map_y) },
    });
    const { count } = job.request.y;
    nodeById('map-progress').textContent = job.done < count ? `${job.done} of ${count} rows` : '';
    nodeById('map-notes').replaceChildren(...job.notes.slice(0, 3).map((note) => buildNode('p', {}, note)));
  }

  // Diverging colours are the same on both sides of what is neutral.
  rangeOf(job, look) {
    if (look.palette === 'sequential') return null;
    const values = job.values.flat().filter((value) => value !== null && Number.isFinite(value));
    if (!values.length) return null;
    if (look.colorScale === 'log') {
      const ratio = Math.max(...values.filter((value) => value > 0).map((value) => Math.max(value, 1 / value)), 1.01);
      return [1 / ratio, ratio];
    }
    const size = Math.max(...values.map(Math.abs), 1e-9);
    return [-size, size];
  }

  render(state) {
    for (const name of ['map_x', 'map_y']) {
      nodeById(`f-${name}`).value = state[name];
      writeNumber(nodeById(`f-${name}_from`), state[`${name}_from`]);
      writeNumber(nodeById(`f-${name}_to`), state[`${name}_to`]);
    }
    const offered = offeredIn(this.about.map_quantities, state, this.about).map(({ name }) => name);
    if (offered.join() !== this.offered) {
      fillSelect(nodeById('f-map_quantity'), offered.map((name) => ({ value: name, label: mapLooks[name].title })));
    }
    this.offered = offered.join();
    nodeById('f-map_quantity').value = state.map_quantity;
    const place = (axis) => `${shortSymbol(this.fields.get(axis))} = ${numberText(fieldValue(state, axis))}`;
    const places = `${place(state.map_x)}, ${place(state.map_y)}`;
    nodeById('map-here').textContent = `Current problem: ${places}. Click a cell to move there.`;
  }
}
