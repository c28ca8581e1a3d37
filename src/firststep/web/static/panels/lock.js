// The lock of the vertical axis: its range stays while the curve moves, so that heights can be
// compared. It is part of the state, 'low,high', so that a link keeps it.
import { nodeById, roundTo } from '../page/tools.js';

// The range that a text of the state names; null where it has no meaning on this scale.
export function lockedRange(text, scale) {
  const ends = text.split(',').map(Number);
  if (ends.length !== 2 || !ends.every(Number.isFinite) || !(ends[0] < ends[1])) return null;
  return scale === 'log' && ends[0] <= 0 ? null : ends;
}

export class AxisLock {
  // rangeNow(): the range that is drawn, or null.
  constructor(store, rangeNow) {
    this.box = nodeById('lock');
    this.box.addEventListener('change', (event) => {
      const range = rangeNow();
      if (this.box.checked && !range) this.box.checked = false;
      store.set({ lock: this.box.checked ? range.map((end) => roundTo(end, 6)).join() : '' }, { event });
    });
  }

  render(state) {
    this.box.checked = Boolean(lockedRange(state.lock, state.yscale));
  }
}
