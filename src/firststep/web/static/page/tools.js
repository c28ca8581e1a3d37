// Small helpers for building the page; nothing here knows the problem.

export function nodeById(id) {
  return document.getElementById(id);
}

export function listenTo(id, kind, handler) {
  nodeById(id).addEventListener(kind, handler);
}

// Text goes through append, never through innerHTML: nothing that a person types can become markup.
export function buildNode(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'class') node.className = value;
    else if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function fillSelect(select, options) {
  select.replaceChildren(...options.map(({ value, label }) => buildNode('option', { value }, label)));
}

// A number as people write it: 0.0333, 12, 1.5e−7; what is smaller than rounding errors is 0.
export function numberText(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return '—';
  const size = Math.abs(value);
  if (size < 1e-12) return '0';
  if (size < 1e-4 || size >= 1e6) {
    const [head, power] = value.toExponential(digits - 1).split('e');
    return `${Number(head)}e${Number(power)}`.replaceAll('-', '−');
  }
  return String(Number(value.toPrecision(digits))).replace('-', '−');
}

export function roundTo(value, digits) {
  return value === 0 ? 0 : Number(value.toPrecision(digits));
}

export function spacedValues(from, to, count, scale) {
  if (count <= 1) return [from];
  const steps = Array.from({ length: count }, (_, index) => index / (count - 1));
  const values = scale === 'log' && from > 0 && to > 0
    ? steps.map((part) => from * (to / from) ** part)
    : steps.map((part) => from + (to - from) * part);
  values[count - 1] = to;
  return values;
}

// Reads a number box; null where the text is no finite number.
export function numberIn(box) {
  const text = box.value.trim();
  const value = Number(text);
  return text === '' || !Number.isFinite(value) ? null : value;
}

// Writes a number box, but leaves what a person is typing alone as long as it means the same.
export function writeNumber(box, value) {
  if (value === null || value === undefined) return;
  if (numberIn(box) === value) return;
  // 0.00001 would be cut off in a narrow box and look like 0.
  box.value = value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential() : String(value);
}

// A unit stays with its number where a line breaks.
export function keepUnits(text) {
  return text.replace(/ (?=(%|d)(?![\w]))/g, '\u00a0');
}

export function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

// One line for people, at the top of the page; also read out by screen readers.
export function sayNotice(text, action = null) {
  const notice = nodeById('notice');
  notice.replaceChildren();
  notice.hidden = !text;
  if (!text) return;
  notice.append(buildNode('span', {}, text));
  if (action) notice.append(buildNode('button', { type: 'button', onclick: action.run }, action.label));
  const dismiss = { type: 'button', 'aria-label': 'Dismiss this message', onclick: () => sayNotice('') };
  notice.append(buildNode('button', dismiss, '×'));
}
