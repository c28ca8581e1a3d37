// One sentence for everything that is seen: on hover, on keyboard focus, on tap; with a link to the
// guide.
import { buildNode } from './tools.js';

// Sentences for what is on this page alone; the library sends those on its quantities.
const pageWords = {
  curve: ['Curve',
    'The chosen quantity against one field of the problem, everything else held fixed; the ring is the '
      + 'current problem and can be dragged.', ''],
  quantity: ['Quantity', 'What is drawn against the axis.', 'risk'],
  axis: ['Axis', 'The field of the problem that runs along the horizontal axis.', ''],
  range: ['Range', 'Where the horizontal axis begins and ends.', ''],
  xscale: ['Horizontal scale',
    'Equal ratios (log) or equal differences (linear) take equal lengths on the horizontal axis.', ''],
  yscale: ['Vertical scale',
    'Equal ratios (log) or equal differences (linear) take equal lengths on the vertical axis; log leaves out '
      + 'values that are not positive.', ''],
  lock: ['Lock',
    'The vertical axis keeps its range while the curve moves, in the link too; another quantity frees it.', ''],
  lines: ['Lines', 'Which predictions are drawn.', 'exact'],
  values: ['Values here', 'The numbers of the current problem, as the library predicts them.', 'risk'],
  sim_dimension: ['Dimension d',
    'Input dimension of the simulated networks: larger is closer to the theory and slower.', 'simulate'],
  sim_replicates: ['Replicates',
    'Networks with fresh data at every point; their spread gives the error bars.', 'simulate'],
  sim_points: ['Points', 'Number of places along the axis that are simulated.', 'simulate'],
  sim_seed: ['Seed', 'The same seed gives the same networks again.', 'simulate'],
  sim_model: ['Model',
    'The real network, random features without the step, or the bulk with a rank-one spike in place of the '
      + 'step.', 'simulate'],
  run: ['Run', 'Starts the simulation; the points appear on the curve as they are finished.', 'simulate'],
  cancel: ['Cancel', 'Stops the simulation and frees the machine; finished points stay.', 'simulate'],
  own: ['Own points',
    'Puts points of a table (CSV) on this curve: a column for the axis, one for what is shown, and its error; '
      + 'they are read here and sent nowhere.', ''],
  gallery: ['Gallery', 'All presets with a small picture each.', 'preset'],
  clear: ['Remove points', 'Takes all simulated points off the curve.', 'simulate'],
  take_python: ['Python', 'A Python program that computes this curve.', 'take'],
  take_command: ['Command', 'A command line that predicts this one problem, not the curve.', 'take'],
  take_toml: ['TOML', 'An experiment file for “firststep sweep”.', 'take'],
  save_png: ['PNG', 'Saves what is drawn as a picture in pixels.', 'take'],
  save_svg: ['SVG', 'Saves what is drawn as a picture that scales.', 'take'],
  save_csv: ['CSV', 'Saves the numbers that are drawn as a table.', 'take'],
  map_x: ['Across', 'The field that runs along the horizontal axis of the phase diagram.', 'map'],
  map_y: ['Up', 'The field that runs along the vertical axis of the phase diagram.', 'map'],
  map_quantity: ['Colour',
    'What the colours show: the risk, the gain of the step over random features, or the risk over the kernel '
      + 'lower bound; of classifiers the error rate, or what the step gains of it.', 'map'],
  undo: ['Undo', 'Takes the last change back (Ctrl+Z).', ''],
  redo: ['Redo', 'Repeats the change that was taken back (Ctrl+Shift+Z).', ''],
  copy_link: ['Copy link', 'Copies the address of exactly this view; it holds every setting.', ''],
  theme: ['Colours', 'Light or dark page; auto follows the system.', ''],
  same_as_alpha: ['same as α', 'The step sees as many samples as the ridge fit, whatever α is.', 'alpha0'],
  infinity: ['infinite', 'The limit in which dimension, width and samples grow together.', 'dimension'],
  tabs: ['View', 'A curve along one field, or a phase diagram over two.', ''],
};

export class Words {
  constructor(about) {
    this.entries = new Map();
    for (const [key, [label, explanation, anchor]] of Object.entries(pageWords)) {
      this.entries.set(key, { label, explanation, anchor });
    }
    for (const [key, entry] of Object.entries(about.words || {})) this.entries.set(key, entry);
    this.linked = !about.offline;
    this.tip = new Tip();
  }

  find(key) {
    return this.entries.get(key) || null;
  }

  // entry may be a function where the sentence changes. A 'term' opens its explanation by itself;
  // anything else keeps its own click.
  attach(trigger, entry, kind = 'term') {
    if (!entry) return;
    this.tip.attach(trigger, entry, kind, this.linked);
  }

  decorate(root = document) {
    for (const trigger of root.querySelectorAll('[data-word]')) {
      this.attach(trigger, this.find(trigger.dataset.word), trigger.classList.contains('term') ? 'term' : 'other');
    }
  }

  // A word with a dotted line beneath it.
  term(label, entry, id = null) {
    const trigger = buildNode('button', { type: 'button', class: 'term', id }, label);
    this.attach(trigger, entry);
    return trigger;
  }

  // For what has a click of its own, such as a checkbox.
  questionMark(entry) {
    const name = `What is “${entry.label}”?`;
    const trigger = buildNode('button', { type: 'button', class: 'question', 'aria-label': name }, '?');
    this.attach(trigger, entry);
    return trigger;
  }
}

// One box for all explanations. It follows its trigger in the document, so that Tab leads from the
// word to the link.
class Tip {
  constructor() {
    this.text = buildNode('span', { id: 'tip-text' });
    this.link = buildNode('a', { target: '_blank', rel: 'noopener' }, 'More in the guide');
    this.box = buildNode('span', { class: 'tip', hidden: true }, this.text, ' ', this.link);
    if ('showPopover' in this.box) this.box.popover = 'manual'; // above everything, dialogs included
    this.trigger = null;
    this.timer = null;
    this.pin(false);
    this.box.addEventListener('pointerenter', () => clearTimeout(this.timer));
    this.box.addEventListener('pointerleave', () => this.hideSoon());
    this.box.addEventListener('focusout', (event) => this.left(event));
    document.addEventListener('keydown', (event) => this.trigger && event.key === 'Escape' && this.escaped(event));
    document.addEventListener('pointerdown', (event) => {
      if (this.trigger && !this.box.contains(event.target) && !this.trigger.contains(event.target)) this.hide();
    });
    // Focus by keyboard scrolls the word into view after the box was placed.
    window.addEventListener('scroll', () => this.trigger && this.follow(), true);
    window.addEventListener('resize', () => this.trigger && this.follow());
  }

  attach(trigger, given, kind, linked) {
    const show = () => this.show(trigger, typeof given === 'function' ? given() : given, linked);
    trigger.addEventListener('pointerenter', (event) => {
      if (event.pointerType !== 'mouse') return;
      clearTimeout(this.timer);
      this.timer = setTimeout(show, kind === 'term' ? 150 : 500);
    });
    trigger.addEventListener('pointerleave', () => this.hideSoon());
    trigger.addEventListener('focus', () => trigger.matches(':focus-visible') && show());
    trigger.addEventListener('blur', (event) => this.left(event));
    trigger.addEventListener('click', () => {
      if (kind !== 'term') {
        this.hide();
      } else if (this.trigger === trigger && this.pinned) {
        this.hide();
      } else {
        show();
        this.pin(true);
      }
    });
  }

  // Only a box that was asked for by click or Enter takes the pointer and the focus; any other lets
  // clicks through.
  pin(isPinned) {
    this.pinned = isPinned;
    this.box.classList.toggle('pinned', isPinned);
    this.link.tabIndex = isPinned ? 0 : -1;
  }

  show(trigger, entry, linked) {
    clearTimeout(this.timer);
    if (this.trigger === trigger) return;
    this.hide();
    this.trigger = trigger;
    this.described = trigger.getAttribute('aria-describedby');
    trigger.setAttribute('aria-describedby', [this.described, 'tip-text'].filter(Boolean).join(' '));
    this.text.textContent = entry.explanation;
    this.link.hidden = !linked;
    this.link.href = entry.anchor ? `guide#${entry.anchor}` : 'guide';
    trigger.after(this.box);
    this.box.hidden = false;
    if (this.box.popover) this.box.showPopover();
    this.place(trigger.getBoundingClientRect());
  }

  place(around) {
    const size = this.box.getBoundingClientRect();
    const last = document.documentElement.clientWidth - size.width - 8;
    // What a word names lies beneath it (a slider) or beside it (a box), so the text keeps away
    // from there.
    const isBeside = Boolean(this.trigger.closest('.field:not(.inline)')) && around.right + 8 <= last;
    const above = (isBeside ? around.bottom : around.top - 6) - size.height;
    const below = Math.max(8, Math.min(around.bottom + 6, window.innerHeight - size.height - 8));
    this.box.style.left = `${isBeside ? around.right + 8 : Math.max(8, Math.min(around.left, last))}px`;
    this.box.style.top = `${isBeside ? Math.max(8, above) : above >= 8 ? above : below}px`;
  }

  follow() {
    const around = this.trigger.getBoundingClientRect();
    if (around.bottom < 0 || around.top > window.innerHeight) this.hide();
    else this.place(around);
  }

  hideSoon() {
    clearTimeout(this.timer);
    if (!this.pinned) this.timer = setTimeout(() => this.hide(), 250);
  }

  left(event) {
    const target = event.relatedTarget;
    if (target && (this.box.contains(target) || target === this.trigger)) return;
    if (this.trigger) this.hide();
  }

  escaped(event) {
    if (this.box.contains(document.activeElement)) this.trigger.focus();
    this.hide();
    event.preventDefault();
  }

  hide() {
    clearTimeout(this.timer);
    if (!this.trigger) return;
    if (this.described) this.trigger.setAttribute('aria-describedby', this.described);
    else this.trigger.removeAttribute('aria-describedby');
    this.trigger = null;
    this.pin(false);
    if (this.box.popover && this.box.matches(':popover-open')) this.box.hidePopover();
    this.box.hidden = true;
    this.box.remove();
  }
}

// Connects a control to the visible word that names it.
export function nameBy(control, trigger) {
  if (!trigger.id) trigger.id = `t-${control.id}`;
  control.setAttribute('aria-labelledby', trigger.id);
}
