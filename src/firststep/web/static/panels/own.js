// Points of one's own, from a table, on the curve: a column for the axis, one for what is shown, and
// if there is one its error. The file is read by the browser and goes nowhere.
import { listenTo, nodeById } from '../page/tools.js';
import { keepInTab, keptInTab } from '../state/kept.js';

const mostBytes = 1e6;
const mostPoints = 2000;
const errorNames = ['standard_error', 'error', 'std', 'stderr', 'se'];

function cellsOf(line) {
  const separator = [';', '\t', ','].find((each) => line.includes(each)) || /\s+/;
  return line.trim().split(separator).map((cell) => cell.trim().replace(/^"(.*)"$/, '$1'));
}

function isNumeric(cell) {
  return cell !== undefined && cell !== '' && Number.isFinite(Number(cell));
}

// Points { x, y, error } of a text; a RangeError says in a line what is missing. Columns go by their
// names, or without any by their order.
export function pointsIn(text, axis, quantity) {
  const rows = text.split(/\r?\n/).filter((line) => line.trim() && !line.startsWith('#')).map(cellsOf);
  if (!rows.length) throw new RangeError('the file must have a row of numbers; it is empty');
  const names = isNumeric(rows[0][0]) ? null : rows.shift().map((name) => name.toLowerCase());
  const placeOf = (wanted, otherwise) => {
    const place = names ? names.findIndex((name) => wanted.includes(name)) : -1;
    return place < 0 ? otherwise : place;
  };
  const isNamed = names && names.includes(axis) && names.includes(quantity);
  const [xPlace, yPlace] = isNamed ? [names.indexOf(axis), names.indexOf(quantity)] : [0, 1];
  const errorPlace = placeOf(errorNames, names ? -1 : 2);
  const points = rows.filter((row) => isNumeric(row[xPlace]) && isNumeric(row[yPlace])).map((row) => (
    { x: Number(row[xPlace]), y: Number(row[yPlace]), error: isNumeric(row[errorPlace]) ? Number(row[errorPlace]) : null }));
  if (!points.length) {
    const asked = `a column ${axis} and a column ${quantity}, or two columns of numbers`;
    throw new RangeError(`the file must have ${asked}; its first line is: ${text.split(/\r?\n/)[0].slice(0, 80)}`);
  }
  if (points.length > mostPoints) throw new RangeError(`the file must have at most ${mostPoints} points; got ${points.length}`);
  return points;
}

export class OwnPoints {
  constructor({ store, curve }) {
    Object.assign(this, { store, curve });
    this.series = keptInTab('own'); // { axis, quantity, label, points }
    listenTo('own', 'click', () => nodeById('own-file').click());
    listenTo('own-file', 'change', (event) => this.read(event.target));
    listenTo('clear-own', 'click', () => this.keep([]));
    this.keep(this.series);
  }

  async read(input) {
    const [file] = input.files;
    if (!file) return;
    const error = nodeById('e-own');
    const { axis, quantity } = this.store.state;
    try {
      if (file.size > mostBytes) throw new RangeError(`the file must have at most ${mostBytes / 1e6} MB; got ${(file.size / 1e6).toFixed(1)}`);
      const points = pointsIn(await file.text(), axis, quantity);
      const others = this.series.filter((each) => each.label !== file.name || each.axis !== axis || each.quantity !== quantity);
      error.textContent = '';
      this.keep([...others, { axis, quantity, label: file.name, points }]);
    } catch (fault) {
      error.textContent = `${file.name}: ${fault.message}`;
    }
    input.value = ''; // the same file may be chosen again
  }

  keep(series) {
    this.series = series;
    keepInTab('own', series);
    nodeById('clear-own').hidden = !series.length;
    this.curve.setOwn(series);
  }
}
