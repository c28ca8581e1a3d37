// The parts of the error as a bar.
import { buildNode } from '../page/tools.js';

const partColors = { learned: 'green', along: 'orange', across: 'sky', out_of_reach: 'pink', fluctuation: 'grey' };
const spareColors = ['green', 'orange', 'grey', 'pink', 'sky', 'red'];

// The parts that are known with their colours, their sum and the pieces of the bar.
export function barOf(split) {
  const parts = split.filter((part) => part.value !== null)
    .map((part, index) => ({ ...part, color: partColors[part.name] || spareColors[index % spareColors.length] }));
  const whole = parts.reduce((sum, part) => sum + Math.max(part.value, 0), 0) || 1;
  const pieces = parts.map((part) => {
    const share = Math.max(part.value, 0) / whole;
    const percent = share > 0.12 ? `${Math.round(share * 100)} %` : '';
    const piece = buildNode('div', { class: 'piece', 'data-part': part.name, 'data-color': part.color }, percent);
    piece.style.width = `${share * 100}%`;
    piece.style.backgroundColor = `var(--c-${part.color})`;
    return piece;
  });
  return { parts, whole, pieces };
}
