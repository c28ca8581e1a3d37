// What charts and heat maps share: an SVG that follows the width of its host and is drawn again
// when that changes.
import { svgNode, setAttributes, Pen, paperRoot, svgText } from './svg.js';

// The height: the least height of the host, which the browser gives in px, or in proportion to the
// width.
function figureHeight(host, width) {
  const wish = parseFloat(getComputedStyle(host).minHeight);
  return wish > 0 ? wish : Math.round(Math.max(270, Math.min(600, width * 0.56)));
}

// A figure has drawLayer(pen, layer, width, height, isPaper), which returns the frame, and drawn(),
// called after it.
export class Figure {
  constructor(host, label, attributes) {
    this.host = host;
    this.label = label;
    this.spec = null;
    this.width = 0;
    this.frame = null;
    this.root = svgNode('svg', attributes);
    const style = { display: 'block', touchAction: 'pan-y', userSelect: 'none', webkitUserSelect: 'none' };
    Object.assign(this.root.style, style);
    this.plot = svgNode('g', null, this.root);
    host.appendChild(this.root);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(host);
    // a height that follows the window can shrink without any change of the host, which holds the
    // older drawing
    window.addEventListener('resize', () => this.resize());
  }

  resize() {
    const width = this.host.clientWidth;
    if (width === this.width && (!width || figureHeight(this.host, width) === this.wantedHeight)) return;
    this.width = width;
    this.measuredWidth = null;
    this.redraw();
  }

  redraw() {
    if (!this.spec) return;
    if (!this.width) this.width = this.host.clientWidth;
    // a hidden host has no width; the observer calls again when it is shown
    if (this.width < 40) return;
    if (this.measuredWidth !== this.width) {
      this.measuredWidth = this.width;
      this.pen = Pen.live(this.host, this.width);
      this.wantedHeight = figureHeight(this.host, this.width);
    }
    const layer = svgNode('g');
    this.frame = this.drawLayer(this.pen, layer, this.width, this.wantedHeight, false);
    this.plot.replaceWith(layer);
    this.plot = layer;
    const height = Math.ceil(this.frame.height);
    setAttributes(this.root, { width: this.width, height, viewBox: `0 0 ${this.width} ${height}` });
    this.drawn();
  }

  // Where a pointer is, in pixels of the drawing.
  place(event) {
    const rect = this.root.getBoundingClientRect();
    const zoom = this.width / rect.width || 1;
    return [(event.clientX - rect.left) * zoom, (event.clientY - rect.top) * zoom];
  }

  // A file that opens by itself; `caption` is written beneath the figure, small.
  toSVG(description = '', caption = '') {
    const width = Math.max(640, Math.min(1000, this.width || 800));
    const pen = Pen.paper(width);
    const layer = svgNode('g');
    const frame = this.drawLayer(pen, layer, width, Math.round(width * 0.6), true);
    const size = pen.small * 0.8;
    const lines = pen.wrap(caption, width, size);
    lines.forEach((line, index) => {
      pen.text(layer, 0, frame.height + size * (1.5 + 1.35 * index), line, { size, color: 'soft' });
    });
    const height = Math.ceil(frame.height + (lines.length ? size * (0.9 + 1.35 * lines.length) : 0));
    const root = paperRoot(width, height, pen, this.label, description);
    root.appendChild(layer);
    return svgText(root);
  }
}
