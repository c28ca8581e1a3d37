// The marker of the current problem: a ring on the curve and a handle on the x axis. A slider:
// mouse, touch, keys.
import { isNumber, plainNumber, valueAtPixel } from './axis.js';
import { svgNode, setAttributes, px, LabelPlacer } from './svg.js';
import { lineValueAt } from './series.js';

const GRIP_HEIGHT = 18;
const KEY_STEPS = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 };

export class MarkerSlider {
  // onDrag(x, isFinal); pixelOf(event) gives the pixel column inside the figure
  constructor(parent, { onDrag, pixelOf }) {
    this.onDrag = onDrag;
    this.pixelOf = pixelOf;
    this.marker = null;
    this.pending = false;
    this.dragging = false;
    const slider = { role: 'slider', tabindex: 0, 'aria-orientation': 'horizontal', visibility: 'hidden' };
    this.group = svgNode('g', slider, parent);
    // the ring drawn below shows focus; the outline of the whole group would be a tall rectangle
    this.group.style.outline = 'none';
    this.group.style.cursor = 'ew-resize';
    this.group.style.touchAction = 'none';
    this.stem = svgNode('path', { 'stroke-width': 1, 'stroke-dasharray': '2 3', 'pointer-events': 'none' }, this.group);
    this.focus = svgNode('path', { fill: 'none', 'stroke-width': 3, visibility: 'hidden' }, this.group);
    this.ring = svgNode('circle', { 'stroke-width': 2.5, r: 6.5 }, this.group);
    this.grip = svgNode('path', { 'stroke-width': 1 }, this.group);
    this.ridges = svgNode('path', { 'stroke-width': 1, 'pointer-events': 'none' }, this.group);
    this.label = svgNode('g', { 'pointer-events': 'none' }, this.group);
    // fingers need more than the ring itself
    this.ringTouch = svgNode('circle', { r: 20, fill: 'transparent' }, this.group);
    this.gripTouch = svgNode('rect', { width: 40, height: 44, fill: 'transparent' }, this.group);
    this.listen();
  }

  get active() {
    return this.dragging;
  }

  listen() {
    const group = this.group;
    group.addEventListener('pointerdown', event => {
      if (event.button !== 0 || !this.frame) return;
      event.preventDefault();
      group.focus({ preventScroll: true });
      this.showFocus(false);
      group.setPointerCapture(event.pointerId);
      this.dragging = true;
      this.pointer = event.pointerId;
      this.offset = this.column - this.pixelOf(event);
      this.followed = this.lineBelow();
    });
    group.addEventListener('pointermove', event => {
      if (this.dragging && event.pointerId === this.pointer) this.moveTo(this.pixelOf(event) + this.offset);
    });
    for (const name of ['pointerup', 'pointercancel', 'lostpointercapture']) {
      group.addEventListener(name, event => {
        if (!this.dragging || event.pointerId !== this.pointer) return;
        this.dragging = false;
        this.finish();
      });
    }
    group.addEventListener('keydown', event => this.onKey(event));
    group.addEventListener('keyup', () => this.dragging || this.finish());
    group.addEventListener('focus', () => this.showFocus(group.matches(':focus-visible')));
    group.addEventListener('blur', () => {
      this.showFocus(false);
      this.finish();
    });
  }

  // Draws the marker; while it is dragged its x belongs to the hand, whatever an answer that comes
  // late says.
  show(pen, frame, marker, spec) {
    Object.assign(this, { pen, frame, spec, given: marker, isShown: true });
    if (!marker || !frame.xScale.drawable(marker.x)) {
      // a marker that vanished under the hand would lose the drag
      if (this.marker && (this.dragging || this.pending)) this.draw();
      else this.group.setAttribute('visibility', 'hidden');
      return;
    }
    if (this.dragging && this.marker) {
      const same = Math.abs(frame.xScale.toPixel(marker.x) - this.column) < 1;
      const y = same || !this.followed ? marker.y : this.followedValue(this.marker.x);
      this.marker = { ...marker, x: this.marker.x, y, label: same ? marker.label : this.marker.label };
    } else {
      this.marker = { ...marker };
    }
    this.draw();
  }

  draw() {
    const { pen, frame, marker, spec } = this;
    const { xScale, yScale, top, bottom } = frame;
    const off = !xScale.has(marker.x);
    const x = xScale.toPixel(xScale.clamp(marker.x));
    this.column = x;
    const y = !off && yScale.drawable(marker.y) && yScale.has(marker.y) ? yScale.toPixel(marker.y) : null;
    const ink = pen.paint('ink');
    const panel = pen.paint('panel');
    this.group.setAttribute('visibility', 'visible');
    // outside the shown range the handle waits, pale, at the border
    this.group.setAttribute('opacity', off ? 0.45 : 1);
    const stem = off ? null : `M${px(x)} ${px(y === null ? top : y + 7)}V${px(bottom)}`;
    setAttributes(this.stem, { d: stem, stroke: ink });
    const ring = { visibility: y === null ? 'hidden' : null, cx: x, cy: y || 0 };
    setAttributes(this.ring, { ...ring, fill: panel, stroke: ink });
    setAttributes(this.ringTouch, ring);
    const grip = bottom - GRIP_HEIGHT; // inside the frame: beneath it are the numbers of the axis
    setAttributes(this.grip, { d: gripPath(x, grip), fill: ink, stroke: panel });
    setAttributes(this.ridges, { d: `M${px(x - 1.5)} ${px(grip + 8)}v7m3 0v-7`, stroke: panel });
    setAttributes(this.gripTouch, { x: x - 20, y: bottom - 30 });
    const focus = y === null ? '' : `M${px(x - 11)} ${px(y)}a11 11 0 1 0 22 0a11 11 0 1 0 -22 0Z`;
    setAttributes(this.focus, { d: focus || gripPath(x, grip, 4), stroke: pen.paint('blue') });
    this.label.replaceChildren();
    if (marker.label && y !== null) drawMarkerLabel(pen, this.label, frame, marker.label, x, y);
    setAttributes(this.group, {
      'aria-label': spec.x.label || marker.label || 'marker',
      'aria-valuemin': String(Math.min(xScale.low, xScale.high)),
      'aria-valuemax': String(Math.max(xScale.low, xScale.high)),
      'aria-valuenow': String(marker.x),
      'aria-valuetext': plainNumber(marker.x) + (y === null ? '' : `, ${spec.y.label} ${plainNumber(marker.y)}`),
    });
  }

  moveTo(pixel) {
    const { from, to } = this.frame.xScale;
    this.setX(valueAtPixel(this.frame.xScale, Math.max(from, Math.min(to, pixel))));
  }

  setX(x) {
    if (x === this.marker.x) return;
    this.marker.x = x;
    // a label such as 'α = 2' goes along until the page writes its own
    if (this.marker.label) this.marker.label = this.marker.label.replace(/=.*$/, `= ${plainNumber(x)}`);
    if (this.followed) this.marker.y = this.followedValue(x);
    this.draw();
    this.pending = true;
    if (this.onDrag) this.onDrag(x, false);
  }

  finish() {
    if (!this.pending) return;
    this.pending = false;
    this.isShown = false;
    if (this.onDrag) this.onDrag(this.marker.x, true);
    // the page may hold the marker to a grid and have nothing new to draw: then go back to where it
    // says
    setTimeout(() => {
      if (!this.isShown && !this.pending && !this.dragging) this.show(this.pen, this.frame, this.given, this.spec);
    }, 400);
  }

  onKey(event) {
    if (!this.marker || event.altKey || event.ctrlKey || event.metaKey) return;
    const { xScale } = this.frame;
    const step = (xScale.to - xScale.from) / 100;
    let pixel = null;
    if (event.key === 'Home') pixel = xScale.from;
    else if (event.key === 'End') pixel = xScale.to;
    else if (event.key in KEY_STEPS) pixel = this.column + step * KEY_STEPS[event.key] * (event.shiftKey ? 10 : 1);
    if (pixel === null) return;
    event.preventDefault();
    this.showFocus(true);
    this.followed = this.lineBelow();
    this.moveTo(pixel);
  }

  showFocus(on) {
    this.focus.setAttribute('visibility', on ? 'inherit' : 'hidden');
  }

  // The line the ring sits on: the ring glides along it until the page has the new value.
  lineBelow() {
    const { xScale, yScale } = this.frame;
    if (!yScale.drawable(this.marker.y)) return null;
    const y = yScale.toPixel(this.marker.y);
    let [best, found] = [5, null];
    for (const line of this.spec.lines) {
      const value = lineValueAt(line, this.marker.x, xScale, yScale);
      const distance = value === null ? Infinity : Math.abs(yScale.toPixel(value) - y);
      if (distance < best) [best, found] = [distance, line.label];
    }
    return found;
  }

  followedValue(x) {
    const line = this.spec.lines.find(({ label }) => label === this.followed);
    return line ? lineValueAt(line, x, this.frame.xScale, this.frame.yScale) : null;
  }
}

// Its tip at height y.
function gripPath(x, y, more = 0) {
  const [wide, high] = [6 + more, GRIP_HEIGHT + more];
  return `M${px(x)} ${px(y - more)}L${px(x + wide)} ${px(y + 6)}V${px(y + high)}H${px(x - wide)}V${px(y + 6)}Z`;
}

// The marker in a saved figure: the ring and its label, without the handle.
export function drawStillMarker(pen, parent, frame, marker) {
  const { xScale, yScale } = frame;
  if (!xScale.drawable(marker.x) || !xScale.has(marker.x) || !isNumber(marker.y)) return;
  if (!yScale.drawable(marker.y) || !yScale.has(marker.y)) return;
  const [x, y] = [xScale.toPixel(marker.x), yScale.toPixel(marker.y)];
  const ring = { cx: x, cy: y, r: 6.5, 'stroke-width': 2.5, fill: pen.paint('panel'), stroke: pen.paint('ink') };
  svgNode('circle', ring, parent);
  if (marker.label) drawMarkerLabel(pen, parent, frame, marker.label, x, y);
}

// Beside the ring, clear of the labels and verticals of the chart; curves may pass below, the halo
// keeps it readable.
function drawMarkerLabel(pen, parent, frame, label, x, y) {
  const lines = pen.wrap(label, (frame.right - frame.left) * 0.6, pen.small, 600);
  const line = pen.small * 1.15;
  const width = Math.max(...lines.map(text => pen.width(text, pen.small, 600)));
  const height = lines.length * line;
  const room = { left: frame.left + 3, right: frame.right - 3, top: frame.top + 2, bottom: frame.bottom - 8 };
  const placer = new LabelPlacer(room, []);
  placer.boxes.push(...(frame.labelBoxes || []));
  const middle = Math.max(room.left, Math.min(room.right - width, x - width / 2));
  const places = [y - 9 - height, y + 10].flatMap(top => [x + 9, x - 9 - width, middle].map(left => [left, top]));
  const box = placer.place(places.map(([left, top]) => ({ x: left, y: top, width, height })));
  lines.forEach((text, index) => {
    pen.text(parent, box.x, box.y + line * index + pen.small * 0.9, text, { size: pen.small, weight: 600, halo: true });
  });
}
