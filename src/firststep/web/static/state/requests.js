// Questions to the library: one in flight per slot, newer ones win, answers are kept, errors find
// their field.
import { nodeById } from '../page/tools.js';

// ms that a question of the same gesture may still be waited for: a slow curve that is given up
// whenever the hand moves on would never be seen
export const patience = 1500;
const rememberedAnswers = 80; // a gesture and its undo ask for the same again

// Too much to do, or a worker that ended: worth another try.
export function isBusyAnswer(error) {
  return [429, 503].includes(error.status);
}

export class Slot {
  constructor(send, { onAnswer, onError, onBusy = () => {} }) {
    this.send = send;
    this.onAnswer = onAnswer;
    this.onError = onError;
    this.onBusy = onBusy;
    this.running = null;
    this.waiting = null;
    this.memory = new Map();
  }

  // context.live: part of a gesture. Then the question in flight may finish (or a fast hand would
  // never see a curve); any other newer question ends the older one at once, and its answer is
  // never used.
  ask(body, context = {}) {
    const key = JSON.stringify(body);
    const remembered = this.memory.get(key);
    if (remembered) {
      this.cancel();
      this.onAnswer(remembered, { ...context, key });
      return;
    }
    const task = { key, body, context, started: performance.now(), tries: 0 };
    if (this.running && this.running.key === key) {
      this.waiting = null;
      this.running.context = { ...context, time: this.running.context.time };
      return;
    }
    if (this.running && context.live && task.started - this.running.started < patience) {
      this.waiting = task;
      return;
    }
    this.stop();
    this.begin(task);
  }

  begin(task) {
    this.running = task;
    task.started = performance.now();
    task.controller = new AbortController();
    this.onBusy(true);
    this.send(task.body, task.controller.signal).then(
      (answer) => this.answered(task, answer),
      (error) => this.failed(task, error),
    );
  }

  answered(task, answer) {
    this.memory.set(task.key, answer);
    if (this.memory.size > rememberedAnswers) this.memory.delete(this.memory.keys().next().value);
    if (this.running !== task) return;
    const newer = this.next();
    this.onAnswer(answer, { ...task.context, newer, key: task.key });
  }

  failed(task, error) {
    if (this.running !== task || error.name === 'AbortError') return;
    if (isBusyAnswer(error) && task.tries < 3 && !this.waiting) {
      task.tries += 1;
      setTimeout(() => this.running === task && this.begin(task), 300 * task.tries);
      return;
    }
    const newer = this.next();
    this.onError(errorsIn(error), { ...task.context, newer, key: task.key });
  }

  next() {
    const task = this.waiting;
    this.waiting = null;
    this.running = null;
    if (task) this.begin(task);
    else this.onBusy(false);
    return Boolean(task);
  }

  stop() {
    if (this.running && this.running.controller) this.running.controller.abort();
    this.running = null;
    this.waiting = null;
  }

  cancel() {
    this.stop();
    this.onBusy(false);
  }
}

// One at a time: what can wait must not take every worker from the line that a moving hand waits
// for.
export class Gate {
  constructor() {
    this.last = Promise.resolve();
  }

  pass(signal, begin) {
    const turn = this.last.then(() => {
      if (signal.aborted) throw new DOMException('no longer wanted', 'AbortError');
      return begin();
    });
    this.last = turn.catch(() => {});
    return turn;
  }
}

// Whatever went wrong, as the list that the server sends.
export function errorsIn(error) {
  if (Array.isArray(error.errors) && error.errors.length) return error.errors;
  if (error instanceof TypeError && /fetch|network|load/i.test(error.message)) {
    return [{ parameter: 'server', message: 'The explorer does not answer: is “firststep explore” still running?' }];
  }
  return [{ parameter: 'server', message: String(error.message || error) }];
}

// Shows every error beneath its field; one that has no field goes to the line of the panel that
// asked.
export class ErrorBoard {
  constructor() {
    this.sources = new Map();
    this.shown = new Set();
  }

  report(source, errors, panelLine = null) {
    this.sources.set(source, { errors, panelLine });
    this.show();
  }

  clear(source) {
    if (this.sources.delete(source)) this.show();
  }

  show() {
    const texts = new Map();
    for (const { errors, panelLine } of this.sources.values()) {
      for (const { parameter, message } of errors) {
        const own = `e-${parameter}`;
        const place = nodeById(own) ? own : panelLine;
        if (place && !texts.has(place)) texts.set(place, message);
      }
    }
    for (const place of this.shown) if (!texts.has(place)) this.write(place, '');
    for (const [place, message] of texts) this.write(place, message);
    this.shown = new Set(texts.keys());
  }

  write(place, message) {
    const line = nodeById(place);
    if (!line || line.textContent === message) return;
    line.textContent = message;
    for (const input of document.querySelectorAll(`[aria-describedby~="${place}"]`)) {
      if (message) input.setAttribute('aria-invalid', 'true');
      else input.removeAttribute('aria-invalid');
    }
  }
}

// A thin sign that something is being computed, only when it takes long enough to be noticed.
export class ComputingSign {
  constructor(host, delay = 150) {
    this.host = host;
    this.delay = delay;
    this.busy = new Set();
    this.timer = null;
  }

  // Something new was drawn: the wait starts again, so that a fast drag never shows the sign.
  renew() {
    clearTimeout(this.timer);
    this.timer = null;
    this.host.classList.remove('computing');
    if (this.busy.size) this.timer = setTimeout(() => this.host.classList.add('computing'), this.delay);
  }

  set(name, isBusy) {
    if (isBusy) this.busy.add(name);
    else this.busy.delete(name);
    this.host.setAttribute('aria-busy', String(this.busy.size > 0));
    if (!this.busy.size) {
      clearTimeout(this.timer);
      this.timer = null;
      this.host.classList.remove('computing');
    } else if (this.timer === null) {
      this.timer = setTimeout(() => this.host.classList.add('computing'), this.delay);
    }
  }
}
