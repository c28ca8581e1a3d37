// Slow lines: a question is asked in parts, coarse first, and drawn as they come. A newer question
// ends the older one after the part that is being computed.
import { Slot, errorsIn, isBusyAnswer, patience } from './requests.js';

const partAim = 250; // ms of one part: so long a worker goes on with what nobody wants any more
const longestPart = 8; // places
const fewestDrawn = 5; // places: with fewer a line says nothing of its shape
const whileMoving = 9; // places that are enough while a slider moves
const busyPause = 300; // ms before a busy server is asked again
const mostTries = 5;
const rememberedJobs = 30;

// 0, 32, 16, 8, 24, 4, 12, ...: the distance of the rows halves; batches grow, so that the first
// rows are there soon. The count is one more than a power of two.
export function rowBatches(count, largest) {
  const seen = new Set();
  const batches = [];
  for (let distance = 2 ** Math.floor(Math.log2(count - 1)), size = 1; distance >= 1; distance /= 2, size *= 2) {
    const rows = [];
    for (let row = 0; row < count; row += distance) if (!seen.has(row)) rows.push(row);
    rows.forEach((row) => seen.add(row));
    const most = Math.min(size, largest);
    for (let start = 0; start < rows.length; start += most) batches.push(rows.slice(start, start + most));
  }
  return batches;
}

// One question: the places that are known, and those that are left.
class PartedQuestion {
  constructor(key, body) {
    Object.assign(this, { key, body, known: new Map(), perPlace: null });
    this.left = rowBatches(body.points, 1).flat();
  }

  get isWhole() {
    return this.known.size === this.body.points;
  }

  next() {
    const size = this.perPlace === null ? 1 : Math.round(partAim / this.perPlace);
    return this.left.splice(0, Math.max(1, Math.min(longestPart, size)));
  }

  // A line that does not depend on the axis comes whole, whatever was asked for.
  add(answer, milliseconds, asked) {
    this.perPlace = milliseconds / asked.length;
    answer.places.forEach((place, index) => this.known.set(place, { answer, index }));
    this.left = this.left.filter((place) => !this.known.has(place));
  }

  // What is known so far, as an answer to the whole question.
  answer() {
    const places = [...this.known.keys()].sort((one, other) => one - other);
    const held = places.map((place) => this.known.get(place));
    const [{ answer: some }] = held;
    const along = (of) => held.map(({ answer, index }) => of(answer)[index]);
    const gathered = (name) => Object.fromEntries(Object.entries(some[name]).map(([key, value]) => (
      [key, Array.isArray(value) ? along((answer) => answer[name][key]) : value])));
    const hasBand = held.every(({ answer }) => answer.band);
    const unsolved = [...new Set(held.map(({ answer }) => answer))].reduce((sum, answer) => sum + answer.unsolved, 0);
    const note = `${unsolved} of ${places.length} points could not be solved and are left out`;
    return {
      x: along((answer) => answer.x), y: along((answer) => answer.y), band: hasBand ? gathered('band') : null,
      extra: gathered('extra'), levels: gathered('levels'), notes: unsolved ? [note] : [],
    };
  }
}

export class PartSlot {
  constructor(send, { onAnswer, onError, onBusy }, lanes) {
    Object.assign(this, { send, onAnswer, onError, onBusy, lanes, running: null, waiting: null });
    this.memory = new Map();
  }

  // context.live: part of a gesture, for which a coarse line is enough.
  ask(body, context) {
    const key = JSON.stringify(body);
    const job = this.running;
    if (job && job.key === key) {
      this.waiting = null;
      job.context = { ...context, time: job.context.time };
      return;
    }
    const isYoung = job && performance.now() - job.started < patience;
    if (isYoung && context.live && job.known.size < fewestDrawn) {
      this.waiting = { body, context };
      return;
    }
    this.stop();
    this.begin(key, body, context);
  }

  async begin(key, body, context) {
    const job = this.memory.get(key) || new PartedQuestion(key, body);
    this.remember(job);
    Object.assign(job, { context, controller: new AbortController(), started: performance.now() });
    this.running = job;
    if (job.known.size) this.show(job);
    if (!job.isWhole && this.running === job) this.onBusy(true);
    try {
      await Promise.all(Array.from({ length: this.lanes }, () => this.lane(job)));
    } catch (error) {
      if (this.running !== job) return;
      job.controller.abort();
      const newer = this.goOn();
      this.onError(errorsIn(error), { ...job.context, newer, key });
      return;
    }
    if (this.running === job) this.goOn();
  }

  isEnough(job) {
    return Boolean(this.waiting && job.known.size >= fewestDrawn)
      || (job.context.live && job.known.size >= whileMoving);
  }

  async lane(job) {
    while (this.running === job && job.left.length && !this.isEnough(job)) {
      const places = job.next();
      const begun = performance.now();
      try {
        const answer = await this.patiently({ ...job.body, places }, job.controller.signal);
        job.add(answer, performance.now() - begun, places);
      } catch (error) {
        job.left.unshift(...places);
        if (this.running !== job || error.name === 'AbortError') return;
        throw error;
      }
      if (this.running === job) this.show(job);
    }
  }

  async patiently(body, signal) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await this.send(body, signal);
      } catch (error) {
        if (!isBusyAnswer(error) || tries === mostTries) throw error;
        await new Promise((resolve) => { setTimeout(resolve, busyPause * tries); });
      }
    }
  }

  show(job) {
    if (job.known.size < fewestDrawn && !job.isWhole) return;
    this.onAnswer(job.answer(), { ...job.context, newer: Boolean(this.waiting), key: job.key, partial: !job.isWhole });
  }

  remember(job) {
    this.memory.delete(job.key);
    this.memory.set(job.key, job);
    if (this.memory.size > rememberedJobs) this.memory.delete(this.memory.keys().next().value);
  }

  goOn() {
    const next = this.waiting;
    this.waiting = null;
    this.running = null;
    if (next) this.begin(JSON.stringify(next.body), next.body, next.context);
    else this.onBusy(false);
    return Boolean(next);
  }

  stop() {
    if (this.running) this.running.controller.abort();
    this.running = null;
    this.waiting = null;
  }

  cancel() {
    this.stop();
    this.onBusy(false);
  }
}

// A line that is asked for whole, or in parts where it is slow.
export class LineSlot {
  constructor(send, handlers, lanes = 1) {
    this.whole = new Slot(send, handlers);
    this.parts = new PartSlot(send, handlers, lanes);
  }

  get running() {
    return this.whole.running || this.parts.running;
  }

  ask(body, context, inParts) {
    const [one, other] = inParts ? [this.parts, this.whole] : [this.whole, this.parts];
    if (other.running) other.cancel();
    one.ask(body, context);
  }

  cancel() {
    this.whole.cancel();
    this.parts.cancel();
  }
}
