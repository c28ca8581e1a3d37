// The gallery: every preset with a small picture and its caption; a click goes there.
import { lineThumbnail, phaseThumbnail } from '../charts/thumbnail.js';
import { buildNode, nodeById } from '../page/tools.js';

export class Gallery {
  // choose(preset, event)
  constructor(presets, choose) {
    Object.assign(this, { presets, choose, isDrawn: false });
    this.dialog = nodeById('gallery-dialog');
    nodeById('gallery').addEventListener('click', () => this.open());
  }

  open() {
    if (!this.isDrawn) this.draw();
    this.dialog.showModal();
    this.dialog.scrollTop = 0;
  }

  draw() {
    this.isDrawn = true;
    const host = nodeById('gallery-cards');
    for (const group of new Set(this.presets.map((preset) => preset.group))) {
      const cards = this.presets.filter((preset) => preset.group === group).map((preset) => this.card(preset));
      host.append(buildNode('h3', {}, group), buildNode('div', { class: 'gallery' }, ...cards));
    }
  }

  card(preset) {
    const picture = buildNode('span', { class: 'thumbnail' });
    const { thumbnail, state } = preset;
    if (thumbnail) picture.append(thumbnail.phase ? phaseThumbnail(thumbnail.phase) : lineThumbnail(thumbnail.lines, state.yscale));
    const click = (event) => {
      this.dialog.close();
      this.choose(preset, event);
    };
    return buildNode('button', { type: 'button', 'data-preset': preset.name, onclick: click }, picture,
      buildNode('b', {}, preset.label), buildNode('span', { class: 'soft' }, preset.caption));
  }
}
