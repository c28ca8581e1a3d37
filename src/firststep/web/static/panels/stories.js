// Stories: screens one after the other, each a state of the page and some sentences beside the live
// figure. The state may be played with; the next screen sets its own.
import { buildNode, fillSelect, keepUnits, nodeById } from '../page/tools.js';

export class Stories {
  constructor({ about, store }) {
    Object.assign(this, { store, stories: about.stories || [], defaults: about.defaults, offline: about.offline });
    this.card = nodeById('story');
    const select = nodeById('story-choice');
    const options = this.stories.map(({ name, title }) => ({ value: name, label: title }));
    fillSelect(select, [{ value: '', label: 'Choose a story…' }, ...options]);
    nodeById('story-pair').hidden = !this.stories.length;
    select.addEventListener('change', () => {
      if (select.value) this.go(select.value, 1);
      else this.end();
    });
    nodeById('story-back').addEventListener('click', () => this.turn(-1));
    nodeById('story-next').addEventListener('click', () => this.turn(1));
    nodeById('story-end').addEventListener('click', () => this.end());
  }

  // The story under way and its screen; null without one. A link may name a screen that is not there.
  current() {
    const { story: name, screen } = this.store.state;
    const story = this.stories.find((each) => each.name === name);
    if (!story) return null;
    const number = Math.max(1, Math.min(story.screens.length, Math.round(screen)));
    return { story, number, screen: story.screens[number - 1] };
  }

  go(name, number) {
    const story = this.stories.find((each) => each.name === name);
    this.store.seal();
    this.store.set({ ...this.defaults, ...story.screens[number - 1].state, story: name, screen: number });
    this.store.seal();
  }

  turn(by) {
    const at = this.current();
    const number = at.number + by;
    if (number > at.story.screens.length) this.end();
    else this.go(at.story.name, Math.max(1, number));
  }

  // The picture stays as it is; an exported page goes back to what its sliders can move.
  end() {
    const back = this.offline ? this.defaults : {};
    this.store.set({ ...back, story: '', screen: 1 });
    nodeById('story-choice').focus();
  }

  render() {
    const at = this.current();
    this.card.hidden = !at;
    nodeById('story-choice').value = at ? at.story.name : '';
    if (!at) return;
    const key = `${at.story.name} ${at.number}`;
    if (key === this.shown) return;
    this.shown = key;
    const count = at.story.screens.length;
    nodeById('story-place').textContent = `${at.story.title}, ${at.number} of ${count}`;
    nodeById('story-title').textContent = at.screen.title;
    nodeById('story-words').textContent = keepUnits(at.screen.words);
    this.showQuestion(at.screen);
    nodeById('story-back').disabled = at.number === 1;
    nodeById('story-next').textContent = at.number === count ? 'Finish' : 'Next';
  }

  // The answer is there when it is asked for, not before.
  showQuestion({ question, answer }) {
    const place = nodeById('story-question');
    const shown = question && buildNode('details', {}, buildNode('summary', {}, question), buildNode('p', {}, keepUnits(answer)));
    place.replaceChildren(...(shown ? [shown] : []));
  }
}
