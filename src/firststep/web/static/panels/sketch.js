// A sketch of the network beside the sentences: how many neurons, how many samples in the step and
// in the fit, and the direction of the step, which turns towards the teacher.
import { svgNode } from '../charts/svg.js';
import { nodeById, numberText } from '../page/tools.js';
import { fieldValue } from '../state/state.js';

const [sketchWidth, sketchHeight] = [248, 112];
const mostNeurons = 11;
const longestBar = 62; // px
const dial = { x: 198, y: 52, radius: 34 };

// 0 at a hundredth, 1 at a hundred: what is in proportion to d spans decades.
function sizeOf(ratio) {
  return Math.max(0, Math.min(1, (Math.log10(Math.max(ratio, 1e-9)) + 2) / 4));
}

function spread(count, from, to) {
  return Array.from({ length: count }, (_, index) => from + ((to - from) * (index + 0.5)) / count);
}

function valueNamed(answer, name) {
  const row = (answer.values || []).find((each) => each.name === name);
  return row && typeof row.value === 'number' ? row.value : null;
}

// What the step did, as the library has it: the cosine with the teacher (of several terms with the
// first) and how far the neurons moved; null without a step.
export function stepOf(answer, state) {
  const cosine = valueNamed(answer, 'alignment') ?? valueNamed(answer, 'alignment_1') ?? answer.alignment ?? null;
  if (!state.step || typeof cosine !== 'number') return null;
  return { cosine: Math.max(-1, Math.min(1, cosine)), strength: valueNamed(answer, 'spike_strength') };
}

export class Sketch {
  constructor() {
    this.host = nodeById('sketch');
    const viewBox = `0 0 ${sketchWidth} ${sketchHeight}`;
    this.root = svgNode('svg', { role: 'img', viewBox, width: sketchWidth, height: sketchHeight }, this.host);
    this.host.hidden = true;
  }

  show(answer, state) {
    const step = stepOf(answer, state);
    const ratios = Object.fromEntries(['alpha', 'beta', 'alpha0'].map((name) => [name, fieldValue(state, name)]));
    this.host.hidden = false;
    this.host.classList.remove('outdated');
    this.root.replaceChildren();
    this.root.setAttribute('aria-label', this.inWords(ratios, step));
    this.drawNetwork(ratios.beta, step);
    this.drawBar(70, 'N', ratios.beta, 'grey');
    this.drawBar(85, 'n₀', ratios.alpha0, step ? 'orange' : 'grey');
    this.drawBar(100, 'n', ratios.alpha, 'blue');
    this.drawDial(step);
  }

  // What is drawn belongs to an older problem.
  fade() {
    this.host.classList.add('outdated');
  }

  inWords({ alpha, beta, alpha0 }, step) {
    const size = `A network of ${numberText(beta, 3)} d neurons, fitted on ${numberText(alpha, 3)} d samples`;
    if (!step) return `${size}; it takes no step.`;
    const angle = Math.round((Math.acos(step.cosine) * 180) / Math.PI);
    return `${size}, after a step on ${numberText(alpha0, 3)} d samples, ${angle}° from the teacher.`;
  }

  line(from, to, color, width, dash = null) {
    svgNode('path', { d: `M${from.join(' ')}L${to.join(' ')}`, stroke: `var(--c-${color})`, 'stroke-width': width,
      'stroke-dasharray': dash, 'stroke-linecap': 'round' }, this.root);
  }

  dot(x, y, radius, color) {
    svgNode('circle', { cx: x, cy: y, r: radius, fill: `var(--c-${color})` }, this.root);
  }

  text(x, y, content, anchor = 'start') {
    const node = svgNode('text', { x, y, 'text-anchor': anchor, 'font-size': 11, fill: 'var(--soft)' }, this.root);
    node.textContent = content;
  }

  drawNetwork(beta, step) {
    const [left, middle, right] = [12, 68, 124];
    const inputs = spread(4, 4, 60);
    const neurons = spread(Math.round(2 + (mostNeurons - 2) * sizeOf(beta)), 2, 62);
    for (const y of inputs) for (const to of neurons) this.line([left, y], [middle, to], step ? 'orange' : 'grey', 0.4);
    for (const y of neurons) this.line([middle, y], [right, 32], 'blue', 0.7);
    for (const y of inputs) this.dot(left, y, 3, 'grey');
    for (const y of neurons) this.dot(middle, y, 2.6, step ? 'orange' : 'grey');
    this.dot(right, 32, 3.6, 'blue');
  }

  drawBar(y, name, ratio, color) {
    svgNode('rect', { x: 24, y, width: Math.max(2, longestBar * sizeOf(ratio)), height: 8, rx: 2, fill: `var(--c-${color})` }, this.root);
    this.text(4, y + 8, name);
    this.text(30 + longestBar * sizeOf(ratio), y + 8, `${numberText(ratio, 3)} d`);
  }

  drawDial(step) {
    const { x, y, radius } = dial;
    svgNode('circle', { cx: x, cy: y, r: radius, fill: 'none', stroke: 'var(--line)' }, this.root);
    this.line([x, y], [x, y - radius], 'black', 1.6, '4 3');
    this.text(x, y - radius - 4, 'teacher', 'middle');
    if (!step) {
      this.text(x, y + radius + 12, 'no step', 'middle');
      return;
    }
    const length = radius * (step.strength === null ? 0.8 : 0.35 + 0.6 * (step.strength / (0.5 + step.strength)));
    const sine = Math.sqrt(1 - step.cosine ** 2);
    const tip = [x + length * sine, y - length * step.cosine];
    this.line([x, y], tip, 'orange', 3);
    this.dot(tip[0], tip[1], 3.4, 'orange');
    this.text(x, y + radius + 13, `step: cos ${numberText(step.cosine, 3)}`, 'middle');
  }
}
