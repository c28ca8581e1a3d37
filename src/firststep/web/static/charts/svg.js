// Drawing helpers: SVG elements, the colours of the page and of paper, text that is measured before
// it is placed.

const SVG_SPACE = 'http://www.w3.org/2000/svg';
const PAPER_COLORS = {
  blue: '#0072B2', orange: '#B86E00', green: '#009E73', red: '#D55E00', pink: '#CC79A7', sky: '#2B8CBE',
  grey: '#666666', black: '#111111',
};
const PAPER_ROLES = { ink: '#1a1a1a', soft: '#555555', grid: '#dcdcdc', panel: '#ffffff' };
const PAPER_FONT = 'Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif';
const PAPER_MARGIN = 12;
const measuredWidths = new Map();
let measuringContext = null;
let lastSvgId = 0;

export function svgNode(name, attributes, parent) {
  const node = document.createElementNS(SVG_SPACE, name);
  if (attributes) setAttributes(node, attributes);
  if (parent) parent.appendChild(node);
  return node;
}

// null takes an attribute away; numbers are cut to hundredths of a pixel so that saved files stay
// small.
export function setAttributes(node, attributes) {
  for (const key in attributes) {
    const value = attributes[key];
    if (value === null || value === undefined) node.removeAttribute(key);
    else node.setAttribute(key, typeof value === 'number' ? px(value) : value);
  }
  return node;
}

export function px(value) {
  return Math.round(value * 100) / 100;
}

export function uniqueSvgId(prefix) {
  lastSvgId += 1;
  return `${prefix}-${lastSvgId}`;
}

// On the page a colour is a custom property, so that dark mode needs no redraw.
function livePaint(name) {
  if (name in PAPER_ROLES) return `var(--${name}, ${PAPER_ROLES[name]})`;
  if (name in PAPER_COLORS) return `var(--c-${name}, ${PAPER_COLORS[name]})`;
  return name;
}

function paperPaint(name) {
  return PAPER_ROLES[name] || PAPER_COLORS[name] || name;
}

// A Pen knows the colours, the font and its size: the same drawing code serves the page and a saved
// file.
export class Pen {
  constructor(paint, family, size) {
    this.paintOf = paint;
    this.family = family;
    this.size = size;
    this.small = size * 0.92;
  }

  static live(host, width) {
    const family = getComputedStyle(host).fontFamily || PAPER_FONT;
    const times = parseFloat(getComputedStyle(host).getPropertyValue('--chart-text')) || 1;
    return new Pen(livePaint, family, times * (width < 480 ? 12.5 : width < 1000 ? 14 : 16));
  }

  static paper(width) {
    return new Pen(paperPaint, PAPER_FONT, width < 900 ? 14 : 16);
  }

  // The colours of a heat map are the same in dark mode, so what lies on them must not turn light
  // either.
  onColors() {
    return new Pen(paperPaint, this.family, this.size);
  }

  paint(name) {
    return this.paintOf(name || 'ink');
  }

  width(text, size = this.size, weight = 400) {
    const key = `${weight} ${size}px ${this.family}`;
    const full = `${key}|${text}`;
    let width = measuredWidths.get(full);
    if (width === undefined) {
      measuringContext = measuringContext || document.createElement('canvas').getContext('2d');
      measuringContext.font = key;
      width = measuringContext.measureText(text).width;
      if (measuredWidths.size > 5000) measuredWidths.clear();
      measuredWidths.set(full, width);
    }
    return width;
  }

  text(parent, x, y, content, options = {}) {
    const { anchor = 'start', size = this.size, weight = 400, color = 'ink', halo = false, rotate = 0 } = options;
    const attributes = { x, y, fill: this.paint(color), 'font-size': size };
    if (anchor !== 'start') attributes['text-anchor'] = anchor;
    if (weight !== 400) attributes['font-weight'] = weight;
    if (rotate) attributes.transform = `rotate(${rotate} ${px(x)} ${px(y)})`;
    if (halo) {
      Object.assign(attributes, {
        stroke: this.paint('panel'), 'stroke-width': 4, 'stroke-linejoin': 'round', 'paint-order': 'stroke',
      });
    }
    const node = svgNode('text', attributes, parent);
    node.textContent = content;
    return node;
  }

  // Lines of text that fit the room; a word that is too long by itself is broken rather than cut
  // off.
  wrap(content, room, size = this.size, weight = 400) {
    const lines = [];
    let line = '';
    for (let word of String(content || '').split(/\s+/).filter(Boolean)) {
      const joined = line ? `${line} ${word}` : word;
      if (this.width(joined, size, weight) <= room) {
        line = joined;
        continue;
      }
      if (line) lines.push(line);
      while (word.length > 1 && this.width(word, size, weight) > room) {
        let keep = word.length - 1;
        while (keep > 1 && this.width(word.slice(0, keep), size, weight) > room) keep -= 1;
        lines.push(word.slice(0, keep));
        word = word.slice(keep);
      }
      line = word;
    }
    if (line) lines.push(line);
    return lines;
  }

  shorten(content, room, size = this.size, weight = 400) {
    if (this.width(content, size, weight) <= room) return content;
    let keep = content.length - 1;
    while (keep > 1 && this.width(`${content.slice(0, keep)}…`, size, weight) > room) keep -= 1;
    return `${content.slice(0, keep).trimEnd()}…`;
  }
}

// Puts labels where they cover the least of what is drawn and of each other, inside the frame.
export class LabelPlacer {
  constructor(frame, dots) {
    this.frame = frame;
    this.dots = dots;
    this.boxes = [];
  }

  place(candidates) {
    let best = null;
    let bestCost = Infinity;
    candidates.forEach((box, rank) => {
      const cost = this.cost(box) + 0.25 * rank;
      if (cost < bestCost) {
        best = box;
        bestCost = cost;
      }
    });
    if (best) this.boxes.push(best);
    return best;
  }

  cost(box) {
    const { left, right, top, bottom } = this.frame;
    let cost = 0;
    if (box.x < left || box.x + box.width > right || box.y < top || box.y + box.height > bottom) cost += 1000;
    for (const other of this.boxes) {
      const wide = Math.min(box.x + box.width, other.x + other.width) - Math.max(box.x, other.x);
      const high = Math.min(box.y + box.height, other.y + other.height) - Math.max(box.y, other.y);
      if (wide > 0 && high > 0) cost += 100;
    }
    for (const [x, y] of this.dots) {
      if (x > box.x - 2 && x < box.x + box.width + 2 && y > box.y - 1 && y < box.y + box.height + 1) cost += 1;
    }
    return cost;
  }
}

// The root of a file that opens by itself: white ground, literal colours, a font family for every
// text.
export function paperRoot(width, height, pen, label, description) {
  const size = { width: width + 2 * PAPER_MARGIN, height: height + 2 * PAPER_MARGIN };
  const viewBox = `${-PAPER_MARGIN} ${-PAPER_MARGIN} ${px(size.width)} ${px(size.height)}`;
  const root = svgNode('svg', { ...size, viewBox, 'font-family': pen.family });
  svgNode('title', null, root).textContent = label;
  if (description) svgNode('desc', null, root).textContent = description;
  svgNode('rect', { x: -PAPER_MARGIN, y: -PAPER_MARGIN, ...size, fill: '#ffffff' }, root);
  return root;
}

export function svgText(root) {
  const text = new XMLSerializer().serializeToString(root);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${text}\n`;
}
