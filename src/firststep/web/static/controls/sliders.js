// Where a value lies on a slider, and back. Log sliders have 0 at the left end where the field
// allows it.
import { roundTo } from '../page/tools.js';

const sliderSteps = 1000; // more than a slider has pixels

export function nearestIn(grid, value) {
  return grid.reduce((best, each) => (Math.abs(each - value) < Math.abs(best - value) ? each : best), grid[0]);
}

export class SliderScale {
  // grid: the only values there are (the exported page), or null.
  constructor(field, grid = null) {
    this.field = field;
    this.grid = grid && [...grid].sort((one, other) => one - other);
    this.max = this.grid ? this.grid.length - 1 : sliderSteps;
    this.log = field.scale === 'log' && field.low > 0;
    this.first = this.log && field.zero ? 1 : 0;
  }

  positionOf(value) {
    if (this.grid) return this.grid.indexOf(this.nearest(value));
    const { low, high } = this.field;
    if (this.first && value <= 0) return 0;
    const part = this.log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low);
    return Math.round(this.first + Math.min(1, Math.max(0, part)) * (this.max - this.first));
  }

  valueAt(position) {
    if (this.grid) return this.grid[position];
    const { low, high, step } = this.field;
    if (this.first && position < this.first) return 0;
    const part = (position - this.first) / (this.max - this.first);
    if (part >= 1) return high;
    if (this.log) return roundTo(low * (high / low) ** part, 3);
    const value = low + part * (high - low);
    return step ? roundTo(Math.round(value / step) * step, 10) : roundTo(value, 3);
  }

  nearest(value) {
    return nearestIn(this.grid, value);
  }
}
