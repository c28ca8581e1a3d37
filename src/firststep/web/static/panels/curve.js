// The curve panel: the exact line first, then the others, with the current problem as a ring.
import { Chart } from '../charts/chart.js';
import { buildNode, capitalised, fillSelect, nodeById } from '../page/tools.js';
import { numberIn, numberText, roundTo, writeNumber } from '../page/tools.js';
import { fieldValue } from '../state/state.js';
import { isSlow, offeredIn } from '../state/meaning.js';
import { LineSlot } from '../state/parts.js';
import { ComputingSign, Slot } from '../state/requests.js';
import { nearestIn } from '../controls/sliders.js';
import { nameBy } from '../page/words.js';
import { axisOption, axisTitle, between, curveProblem, frameOf, shortSymbol } from './axes.js';
import { LineBoxes } from './lines.js';
import { AxisLock, lockedRange } from './lock.js';
import { trustIn } from './mechanism.js';
import { pinnedLabel, pinnedProblem } from './pin.js';

const curvePoints = 60; // looks smooth at the width of the page
const hastyPoints = 32; // while a slider moves: half the time, and hardly to be told apart
const slowPoints = 33; // of a line that comes in parts: one more than a power of two
const slowestPoints = 17; // of one whose points take twenty times as long
const bandPause = 250; // ms of rest before a band is asked for that the line came without
const latencies = 200; // the last ones, for whoever measures them
const hiddenNote = 'values of 0 or less are not shown on a logarithmic axis';

export class CurvePanel {
  // onExact(context): the exact line stands and nothing newer waits. onFault(): a field of the
  // problem is at fault.
  constructor({ api, about, store, words, board, gate, onExact, onFault }) {
    Object.assign(this, { about, store, board, onExact, onFault });
    window.firststepLatency = [];
    this.fields = new Map(about.fields.map((field) => [field.name, field]));
    this.host = nodeById('curve-chart');
    this.sign = new ComputingSign(nodeById('curve-card'));
    const onDrag = (x, isFinal) => this.dragged(x, isFinal);
    this.chart = new Chart(this.host, { label: 'Curve of the chosen quantity', onDrag });
    this.answers = new Map(); // line name -> { answer, key, frame }
    this.bands = new Map(); // line name -> { band, notes, key }, those that come after their line
    this.frame = null;
    this.point = null;
    this.simulated = [];
    this.own = [];
    this.boxes = new LineBoxes({ about, store, words });
    this.slots = new Map(about.lines.filter((line) => !line.level).map((line) => [line.name, new LineSlot(
      (body, signal) => {
        const ask = () => api.curve(body, signal);
        return line.name === 'exact' ? ask() : gate.pass(signal, ask);
      }, {
        onAnswer: (answer, context) => this.answered(line.name, answer, context),
        onError: (errors, context) => this.failed(line, errors, context),
        onBusy: (isBusy) => this.sign.set(line.name, isBusy),
      }, line.name === 'exact' ? 2 : 1)]));
    this.ghost = null; // the curve from which a gesture began
    this.lock = new AxisLock(store, () => this.chart.frame && [this.chart.frame.yScale.low, this.chart.frame.yScale.high]);
    this.pinned = null; // the curve of a pinned problem: { answer, frame }
    this.pinSlot = new LineSlot((body, signal) => gate.pass(signal, () => api.curve(body, signal)), {
      onAnswer: (answer, context) => {
        this.pinned = { answer, frame: JSON.stringify(frameOf(context.state)), pin: context.state.pin };
        this.draw();
      },
      onError: () => { this.pinned = null; },
      onBusy: (isBusy) => this.sign.set('pinned', isBusy),
    });
    this.bandSlots = this.slotsForBands(api, gate);
    this.bandLabel = words.find('model_error').label;
    this.prepareOptions(words);
  }

  // A band takes up to ten times as long as its line: it comes when the hand rests, and after
  // everything else. An exported page has it with the line, or not at all.
  slotsForBands(api, gate) {
    const lines = api.band ? this.about.lines.filter((line) => line.band) : [];
    return new Map(lines.map(({ name, label }) => {
      const keep = (found, { key }) => {
        this.bands.set(name, { notes: [], ...found, key });
        this.draw();
      };
      const failed = ([{ message }], context) => {
        keep({ band: null, notes: [`${label}, ${this.bandLabel}: ${message}`] }, context);
      };
      const ask = (body, signal) => gate.pass(signal, () => api.band(body, signal));
      return [name, new Slot(ask, { onAnswer: keep, onError: failed })];
    }));
  }

  prepareOptions(words) {
    const { about, store } = this;
    fillSelect(nodeById('axis'), about.axes.map((name) => ({ value: name, label: axisOption(this.fields.get(name)) })));
    nodeById('quantity').addEventListener('change', (event) => this.changeQuantity(event));
    nodeById('axis').addEventListener('change', (event) => this.changeAxis(event));
    for (const name of ['xscale', 'yscale']) {
      nodeById(name).addEventListener('change', (event) => store.set({ [name]: event.target.value }, { event }));
    }
    for (const name of ['from', 'to']) {
      nodeById(`f-${name}`).addEventListener('change', (event) => {
        const value = numberIn(event.target);
        if (value !== null) store.set({ [name]: value }, { event });
        else writeNumber(event.target, store.state[name]);
      });
    }
    words.attach(nodeById('t-quantity'), () => about.quantities.find((each) => each.name === store.state.quantity));
    nameBy(nodeById('quantity'), nodeById('t-quantity'));
    nameBy(nodeById('axis'), nodeById('t-axis'));
    if (about.offline) this.limitToGrid();
  }

  // An exported page answers along the fields of its grid only.
  limitToGrid() {
    for (const option of nodeById('axis').options) option.disabled = !this.about.grid[option.value];
  }

  // A gain or an alignment can be 0 or negative, which a logarithmic axis does not show.
  changeQuantity(event) {
    const quantity = event.target.value;
    const scaleOf = (wanted) => this.about.quantities.find(({ name }) => name === wanted).scale;
    const changes = { quantity, lock: '' };
    if (scaleOf(quantity) !== scaleOf(this.store.state.quantity)) changes.yscale = scaleOf(quantity);
    this.store.set(changes, { event });
  }

  changeAxis(event) {
    const axis = event.target.value;
    const field = this.fields.get(axis);
    const value = fieldValue(this.store.state, axis);
    let [from, to] = [field.low, field.high];
    // The whole range of a field can span ten decades; look at two or so around the current
    // problem.
    if (field.scale === 'log' && value > 0 && to / from > 1e4) {
      [from, to] = [Math.max(from, roundTo(value / 100, 2)), Math.min(to, roundTo(value * 100, 2))];
    }
    const given = this.about.defaults.axis === axis ? this.about.defaults : null;
    if (given) [from, to] = [given.from, given.to];
    const grid = this.about.grid && this.about.grid[axis];
    if (grid) [from, to] = [Math.min(...grid), Math.max(...grid)];
    this.store.set({ axis, from, to, xscale: field.scale }, { event });
  }

  dragged(x, isFinal) {
    const field = this.fields.get(this.frame.axis);
    const grid = this.about.grid && this.about.grid[field.name];
    let value = roundTo(Math.min(field.high, Math.max(field.zero ? 0 : field.low, x)), 4);
    if (grid) value = nearestIn(grid, x);
    this.store.set({ [field.name]: value }, { event: { timeStamp: performance.now() }, live: true });
    if (isFinal) this.store.seal();
  }

  bodyFor(state, line, isLive = false) {
    const fast = isLive ? hastyPoints : curvePoints;
    const slow = line === 'optimal-ridge' ? slowestPoints : slowPoints;
    const points = Math.min(this.comesInParts(state) ? slow : fast, this.about.limits.points);
    const { axis, from, to, xscale: scale, quantity } = state;
    return { problem: curveProblem(state, this.about.defaults), axis, from, to, scale, points, line, quantity };
  }

  // An exported page has a grid of answers, which takes no time.
  comesInParts(state) {
    return isSlow(state, this.about) && !this.about.offline;
  }

  refresh(state, cause) {
    this.render(state);
    this.wanted = state;
    this.keepGhost(Boolean(cause.live));
    this.isLive = Boolean(cause.live);
    // Lines of an older problem must not come in after the exact line of the newer one.
    const body = this.bodyFor(state, 'exact', cause.live);
    clearTimeout(this.bandTimer);
    for (const [name, slot] of [...this.slots, ...this.bandSlots]) {
      if (slot === this.slots.get('exact') || !slot.running) continue;
      if (slot.running.key !== JSON.stringify(this.bodyFor(state, name))) slot.cancel();
    }
    const full = JSON.stringify(this.bodyFor(state, 'exact'));
    const exact = this.answers.get('exact');
    // The full line may be there already, as when the ring is dragged along it.
    const wanted = exact && exact.key === full ? JSON.parse(full) : body;
    // The current point does not wait for a slow line.
    if (this.comesInParts(state)) this.onExact(state, { ...cause, state });
    this.slots.get('exact').ask(wanted, { ...cause, state }, this.comesInParts(state));
  }

  // While a hand moves, the curve from which it began stays behind.
  keepGhost(isLive) {
    const exact = this.answers.get('exact');
    if (isLive && !this.isLive && exact) this.ghost = exact;
    else if (!isLive) this.ghost = null;
  }

  answered(name, answer, context) {
    const { state } = context;
    const frame = frameOf(state);
    this.answers.set(name, { answer, key: context.key, frame: JSON.stringify(frame) });
    this.board.clear(`curve ${name}`);
    if (name === 'exact') {
      this.frame = frame;
      this.drawnState = state;
      this.host.classList.remove('outdated');
      this.sign.renew();
    }
    this.draw();
    if (name !== 'exact') return;
    if (this.noted !== context.time) this.note(context.time);
    if (!context.newer && !context.partial) {
      if (!this.comesInParts(state)) this.onExact(state, context);
      this.askOthers(context);
      clearTimeout(this.bandTimer);
      if (!context.live && !answer.band && !this.comesInParts(state)) this.bandTimer = setTimeout(() => this.askBands(state), bandPause);
    }
  }

  askBands(state) {
    if (state.quantity !== 'risk') return;
    for (const line of this.about.lines) {
      const slot = this.bandSlots.get(line.name);
      if (slot && this.boxes.shows(line, state)) slot.ask(this.bodyFor(state, line.name));
    }
  }

  // What came after a line that is drawn.
  laterFor(name, { key }) {
    const later = this.bands.get(name);
    return later && later.key === key ? later : { band: null, notes: [] };
  }

  bandFor(name, found) {
    const band = found.answer.band || this.laterFor(name, found).band;
    return band && { ...band, label: this.bandLabel };
  }

  notesOn(name, found) {
    return [...(found.answer.notes || []), ...this.laterFor(name, found).notes];
  }

  // How long the hand waited for something to be drawn.
  note(time) {
    this.noted = time;
    window.firststepLatency.push(performance.now() - time);
    if (window.firststepLatency.length > latencies) window.firststepLatency.shift();
  }

  // The pinned problem along the axis that is shown now.
  askPinned(state) {
    const problem = pinnedProblem(state.pin, this.about);
    if (!problem) {
      this.pinSlot.cancel();
      return;
    }
    const body = { ...this.bodyFor(state, 'exact'), problem: { ...problem, [state.axis]: this.about.defaults[state.axis] } };
    this.pinSlot.ask(body, { state }, isSlow(problem, this.about) && !this.about.offline);
  }

  askOthers(context) {
    this.askPinned(context.state);
    for (const line of this.about.lines) {
      const slot = this.slots.get(line.name);
      if (!slot || line.name === 'exact') continue;
      if (this.boxes.shows(line, context.state)) {
        slot.ask(this.bodyFor(context.state, line.name), { ...context, live: false }, this.comesInParts(context.state));
      } else {
        slot.cancel();
        this.board.clear(`curve ${line.name}`);
      }
    }
  }

  failed(line, errors, context) {
    if (line.name !== 'exact') {
      this.answers.delete(line.name);
      const named = errors.map((error) => ({ parameter: '', message: `${line.label}: ${error.message}` }));
      this.board.report(`curve ${line.name}`, named, 'e-curve');
      this.draw();
      return;
    }
    this.host.classList.add('outdated');
    this.board.report('curve exact', errors, 'e-curve');
    // A bad range says nothing about the problem: what belongs to the point can still be shown.
    if (errors.some((error) => this.fields.has(error.parameter))) this.onFault();
    else this.onExact(context.state, context);
  }

  setPoint(answer, state) {
    this.point = answer && { answer, x: state };
    this.draw();
  }

  setOwn(series) {
    this.own = series;
    this.draw();
  }

  setSimulated(series) {
    this.simulated = series;
    if (series.length && this.host.classList.contains('outdated')) this.clearLines();
    this.draw();
  }

  // Networks of a problem that the theory refuses stand alone, not beside lines of an older one.
  clearLines() {
    this.answers.clear();
    this.point = null;
    [this.frame, this.drawnState] = [frameOf(this.wanted), this.wanted];
    this.host.classList.remove('outdated');
  }

  markerFor(state, exact) {
    const { axis, quantity, from, to, xscale } = this.frame;
    const x = fieldValue(state, axis);
    if (x < Math.min(from, to) || x > Math.max(from, to)) return null;
    const own = this.point && this.point.x === state ? this.point.answer[quantity] : null;
    const y = own ?? (exact ? between(exact.answer.x, exact.answer.y, x, xscale === 'log') : null);
    if (y === null || y === undefined) return null;
    const trust = quantity === 'risk' && this.point ? trustIn(this.point.answer) : null;
    return { x, y, label: this.placeText(state), note: trust ? trust.text : '' };
  }

  placeText(state) {
    const { axis } = this.frame;
    return `${shortSymbol(this.fields.get(axis))} = ${numberText(fieldValue(state, axis))}`;
  }

  // A risk that is not to be trusted is said beneath the curve too; the values may be out of sight.
  warning() {
    const trust = this.frame.quantity === 'risk' && this.point ? trustIn(this.point.answer) : null;
    if (!trust || !trust.isFlagged) return [];
    const text = trust.text.charAt(0).toLowerCase() + trust.text.slice(1);
    return [buildNode('p', { class: 'trust flagged' }, `At ${this.placeText(this.point.x)}: ${text}`)];
  }

  draw() {
    if (!this.frame) return;
    const state = this.wanted || this.store.state;
    const { axis, quantity, from, to, xscale } = this.frame;
    const frameKey = JSON.stringify(this.frame);
    const lines = [];
    const notes = [];
    const exact = this.answers.get('exact');
    for (const line of this.about.lines) {
      if (!this.boxes.shows(line, { ...state, quantity, axis })) continue;
      const found = this.answers.get(line.name);
      if (found && found.frame === frameKey) {
        const current = found.key === JSON.stringify(this.bodyFor(state, line.name));
        lines.push({ label: line.label, x: found.answer.x, y: found.answer.y, color: line.color, dash: line.dash || '',
          width: line.name === 'exact' ? 2.5 : current ? 2 : 1, extra: found.answer.extra,
          band: this.bandFor(line.name, found) });
        for (const note of this.notesOn(line.name, found)) if (!notes.includes(note)) notes.push(note);
      }
    }
    const { ghost, pinned } = this;
    if (ghost && ghost.frame === frameKey && ghost.answer !== (exact && exact.answer)) {
      lines.unshift({ label: '', x: ghost.answer.x, y: ghost.answer.y, color: 'sky', dash: '', width: 1, extra: {}, band: null });
    }
    if (pinned && state.pin && pinned.pin === state.pin && pinned.frame === frameKey) {
      lines.push({ label: pinnedLabel, x: pinned.answer.x, y: pinned.answer.y, color: 'grey', dash: '9 4', width: 2, extra: {}, band: null });
    }
    const levels = exact ? this.boxes.levelsOf(exact.answer, { ...state, quantity, axis }) : { lines: [], levels: [] };
    lines.push(...levels.lines);
    const points = this.simulated.map((series) => this.seriesFor(series, quantity)).filter((series) => series.x.length);
    points.push(...this.ownSeries(axis, quantity));
    const title = this.about.quantities.find((each) => each.name === quantity);
    const isHidden = (series) => [series.y].flat().some((value) => value !== null && value <= 0);
    if (state.yscale === 'log' && [...lines, ...points, ...levels.levels].some(isHidden)) notes.push(hiddenNote);
    this.chart.update({
      x: { label: axisTitle(this.fields.get(axis)), scale: xscale, range: [from, to] },
      y: { label: capitalised(title.label), scale: state.yscale, range: lockedRange(state.lock, state.yscale), floor: title.floor },
      lines, points, bars: [], levels: levels.levels, verticals: [], bands: [], marker: this.markerFor(state, exact), legend: true,
    });
    // A line that came and went would move a slider under the finger.
    if (!this.isLive) this.warned = this.warning();
    nodeById('curve-notes').replaceChildren(...(this.warned || []), ...notes.map((note) => buildNode('p', {}, note)));
  }

  // Own points belong to an axis and a quantity, whatever the problem.
  ownSeries(axis, quantity) {
    const mine = this.own.filter((each) => each.axis === axis && each.quantity === quantity);
    return mine.map(({ label, points }, place) => ({ label, color: ['red', 'black', 'pink'][place % 3], marker: 'diamond',
      x: points.map((each) => each.x), y: points.map((each) => each.y), error: points.map((each) => each.error) }));
  }

  seriesFor({ label, color, marker, points }, quantity) {
    const usable = points.filter((point) => point.values[quantity]).sort((one, other) => one.x - other.x);
    const [means, errors] = [0, 1].map((place) => usable.map((point) => point.values[quantity][place]));
    return { label, color, marker, x: usable.map((point) => point.x), y: means, error: errors };
  }

  render(state) {
    const offered = offeredIn(this.about.quantities, state, this.about).map(({ name, label }) => ({ value: name, label }));
    const names = offered.map(({ value }) => value).join();
    if (names !== this.offeredNames) fillSelect(nodeById('quantity'), offered);
    this.offeredNames = names;
    nodeById('quantity').value = state.quantity;
    nodeById('axis').value = state.axis;
    nodeById('xscale').value = state.xscale;
    nodeById('yscale').value = state.yscale;
    writeNumber(nodeById('f-from'), state.from);
    writeNumber(nodeById('f-to'), state.to);
    this.lock.render(state);
    this.boxes.render(state);
  }
}
