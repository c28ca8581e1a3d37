// What happens at the current problem: the learned function, the weights, the parts of the error,
// the values.
import { Chart } from '../charts/chart.js';
import { buildNode, nodeById, numberText } from '../page/tools.js';
import { problemOf } from '../state/state.js';
import { ComputingSign, Slot } from '../state/requests.js';
import { barOf } from './split.js';

const pointHosts = ['learned-chart', 'split', 'values', 'trust'];
const weightsHosts = ['weights-chart', 'weights-caption'];
const shownKappa = 3.5; // hardly any input lies beyond
const apart = 1.08; // the largest value is a spike if it is this much larger than the next
const farAway = 3; // an outlier this many times beyond the bulk would squeeze it on a linear axis

// How far networks may be from the numbers of the current problem, in words; null where that is not
// told, as in a file of d = infinity.
export function trustIn(answer) {
  const rows = answer.values.filter((each) => each.share !== undefined);
  const reason = answer.model_error_reason;
  if (!rows.length || !reason) return null;
  const row = rows.reduce((worst, each) => (each.share > worst.share ? each : worst));
  if (row.share === null) return { text: `Finite-size error not known: ${reason}.`, isFlagged: false };
  if (!answer.is_flagged) return { text: `Finite-size error: ${reason}.`, isFlagged: false };
  return { text: `May be ${numberText(100 * row.share, 2)} % off: ${reason}.`, isFlagged: true };
}

export class MechanismPanel {
  // onPoint(answer, state): the values of the current problem are known.
  constructor({ api, words, board, gate, onPoint }) {
    Object.assign(this, { words, board, onPoint });
    this.learnedChart = new Chart(nodeById('learned-chart'), { label: 'Learned function and teacher against κ' });
    this.weightsChart = new Chart(nodeById('weights-chart'), { label: 'Singular values of the weights' });
    this.signs = ['learned-card', 'weights-card'].map((id) => new ComputingSign(nodeById(id)));
    this.pointSlot = new Slot((body, signal) => gate.pass(signal, () => api.point(body, signal)), {
      onAnswer: (answer, context) => this.pointed(answer, context),
      onError: (errors) => this.failed('point', errors),
      onBusy: (isBusy) => this.signs[0].set('point', isBusy),
    });
    this.weightsSlot = new Slot((body, signal) => gate.pass(signal, () => api.weights(body, signal)), {
      onAnswer: (answer) => this.weighed(answer),
      onError: (errors) => this.failed('weights', errors),
      onBusy: (isBusy) => this.signs[1].set('weights', isBusy),
    });
  }

  refresh(state, cause) {
    this.state = state;
    this.pointSlot.ask({ problem: problemOf(state) }, { ...cause, state });
  }

  // A field of the problem is at fault: what is shown belongs to an older problem until a good
  // answer comes.
  fade() {
    this.pointSlot.cancel();
    this.weightsSlot.cancel();
    for (const id of [...pointHosts, ...weightsHosts]) nodeById(id).classList.add('outdated');
  }

  failed(source, errors) {
    this.board.report(source, errors, `e-${source}`);
    const hosts = source === 'point' ? pointHosts : weightsHosts;
    for (const id of hosts) nodeById(id).classList.add('outdated');
  }

  pointed(answer, context) {
    this.board.clear('point');
    this.signs[0].renew();
    for (const id of pointHosts) nodeById(id).classList.remove('outdated');
    this.drawLearned(answer);
    this.drawSplit(answer);
    this.drawValues(answer);
    this.drawTrust(answer);
    this.onPoint(answer, context.state);
    // Drawing a network takes longer than predicting it: only when the hand rests.
    if (!context.newer && !context.live) this.weightsSlot.ask({ problem: problemOf(context.state) });
  }

  drawLearned(point) {
    this.showNotes('learned-notes', point.notes);
    if (!point.kappa.length) {
      nodeById('learned-chart').classList.add('outdated');
      return;
    }
    const { kappa, learned, target, teacher, density } = point;
    const range = [Math.max(kappa[0], -shownKappa), Math.min(kappa[kappa.length - 1], shownKappa)];
    const isShown = (value, place) => value !== null && kappa[place] >= range[0] && kappa[place] <= range[1];
    const values = [...learned, ...target, ...teacher].filter((value, place) => isShown(value, place % kappa.length));
    const height = Math.max(...values.map(Math.abs), 1e-9);
    const low = Math.min(...values, 0);
    const peak = Math.max(...density);
    // The density has no scale of its own here: it only shows where inputs are.
    const faint = density.map((value) => low + (value / peak) * height * 0.5);
    this.learnedChart.update({
      x: { label: 'Projection on the step, κ', scale: 'linear', range },
      y: { label: '', scale: 'linear', range: null },
      lines: [
        { label: 'density of κ', x: kappa, y: faint, color: 'grey', dash: '1 3', width: 1 },
        { label: 'the teacher itself', x: kappa, y: teacher, color: 'grey', dash: '', width: 1 },
        { label: 'target E[y | κ]', x: kappa, y: target, color: 'black', dash: '6 4', width: 2 },
        { label: 'learned E[f | κ]', x: kappa, y: learned, color: 'blue', dash: '', width: 2.5 },
      ],
      points: [], bars: [], levels: [], verticals: [], bands: [], marker: null, legend: true,
    });
  }

  weighed(answer) {
    this.board.clear('weights');
    for (const id of weightsHosts) nodeById(id).classList.remove('outdated');
    const { values, before, outlier, dimension, width } = answer;
    // Without a prediction the bulk before the step says where bars are needed.
    const edge = answer.edge || [0, before[0]];
    // The largest value stands by itself where the step has driven it out; the bulk is all the
    // rest.
    const spiked = values[0] > apart * values[1];
    const bulkEnd = Math.max(edge[1], spiked ? values[1] : values[0]);
    const top = Math.max(values[0], outlier ?? 0);
    const far = top > farAway * bulkEnd;
    const smallest = far ? Math.max(Math.min(...values), bulkEnd / 30) : 0;
    const right = far ? top * 1.6 : top * 1.08;
    const edges = binEdges(smallest, bulkEnd * 1.02, 30, far);
    const heights = countIn(values, edges);
    const old = countIn(before, edges);
    const spike = { label: 'spike', x: [values[0]], y: [1], error: [null], color: 'red', marker: 'diamond' };
    const scale = far ? 'log' : 'linear';
    const verticals = answer.edge ? [{ label: 'edge', x: edge[1], color: 'grey', dash: '4 3' }] : [];
    if (edge[0] > smallest) verticals.unshift({ label: '', x: edge[0], color: 'grey', dash: '4 3' });
    if (outlier !== null) verticals.push({ label: 'outlier', x: outlier, color: 'red', dash: '6 3' });
    this.weightsChart.update({
      x: { label: `Singular value${far ? ' (log axis)' : ''}`, scale, range: [smallest, right] },
      y: { label: 'Count', scale: 'linear', range: null },
      lines: [{ label: 'before', ...outlineOf(edges, old), color: 'grey', dash: '', width: 1.2 }],
      points: spiked ? [spike] : [],
      bars: [{ label: 'after', edges, heights, color: 'sky' }],
      levels: [], verticals, bands: [], marker: null, legend: true,
    });
    const below = values.filter((value) => value < smallest).length;
    const left = below ? ` ${below} values below ${numberText(smallest, 2)} are not shown.` : '';
    const largest = `largest value ${numberText(values[0])}`;
    const outlierText = outlier === null ? 'No outlier predicted' : `Predicted outlier ${numberText(outlier)}`;
    const foretold = answer.edge ? outlierText : 'No prediction here';
    const size = `One network, d = ${dimension}, N = ${width}`;
    nodeById('weights-caption').textContent = `${size}. ${foretold}, ${largest}.${left}`;
    this.showNotes('weights-notes', answer.notes);
  }

  drawSplit({ split, total, split_note: note }) {
    const bar = nodeById('split');
    if (note) {
      bar.replaceChildren(buildNode('p', { class: 'soft' }, note));
      return;
    }
    const { parts: shown, whole, pieces } = barOf(split);
    const keys = shown.map((part) => {
      const dot = buildNode('span', { class: 'dot', 'aria-hidden': 'true' });
      dot.style.backgroundColor = `var(--c-${part.color})`;
      return buildNode('li', {}, dot, this.words.term(part.label, { anchor: 'split', ...part }), buildNode('b', {}, numberText(part.value)));
    });
    const learned = shown.find((part) => part.name === 'learned');
    const isWorse = Boolean(learned) && learned.value < 0;
    const worse = 'Worse than predicting nothing: the risk is larger than the signal.';
    const sum = isWorse
      ? `The bar shows the parts of the risk, ${numberText(whole)}. The signal of the teacher is ${numberText(total)}.`
      : `Sum ${numberText(total)}: the whole signal of the teacher.`;
    bar.replaceChildren(
      ...(isWorse ? [buildNode('p', { class: 'worse' }, worse)] : []),
      buildNode('div', { class: 'bar', 'aria-hidden': 'true' }, ...pieces),
      buildNode('ul', {}, ...keys),
      buildNode('p', { class: 'soft' }, sum));
  }

  drawValues({ values }) {
    const names = values.map((row) => row.name + row.label).join();
    const text = ({ value, share }) => {
      if (typeof value !== 'number' && value !== null) return String(value);
      return share ? `${numberText(value, 2)} (${numberText(100 * share, 2)} %)` : numberText(value, 5);
    };
    // Cells are kept while the rows are the same, so that an open explanation does not vanish under
    // the hand.
    if (names !== this.rowNames) {
      const rows = values.map((row) => buildNode('tr', { 'data-value': row.name },
        buildNode('th', { scope: 'row' }, this.words.term(row.label, row)), buildNode('td', {})));
      nodeById('values').replaceChildren(buildNode('tbody', {}, ...rows));
      this.rowNames = names;
    }
    const cells = nodeById('values').querySelectorAll('td');
    values.forEach((row, index) => { cells[index].textContent = text(row); });
  }

  // Read out when it changes; a text that stays is not written again.
  drawTrust(answer) {
    const { text, isFlagged } = trustIn(answer) || { text: '', isFlagged: false };
    const line = nodeById('trust');
    line.classList.toggle('flagged', isFlagged);
    if (line.textContent !== text) line.textContent = text;
  }

  showNotes(id, notes) {
    nodeById(id).replaceChildren(...(notes || []).map((note) => buildNode('p', {}, note)));
  }
}

function binEdges(low, high, count, log) {
  return Array.from({ length: count + 1 }, (_, index) => (
    log ? low * (high / low) ** (index / count) : low + ((high - low) * index) / count));
}

function countIn(values, edges) {
  const heights = Array.from({ length: edges.length - 1 }, () => 0);
  for (const value of values) {
    const place = edges.findIndex((edge) => edge > value) - 1;
    if (place >= 0) heights[place] += 1;
  }
  return heights;
}

function outlineOf(edges, heights) {
  const x = [];
  const y = [];
  heights.forEach((height, index) => {
    x.push(edges[index], edges[index + 1]);
    y.push(height, height);
  });
  return { x, y };
}
