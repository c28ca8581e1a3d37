// The entry: connects the parts and keeps the address of the page in step with the state.
import { connect } from './state/api.js';
import { nodeById, sayNotice } from './page/tools.js';
import { shownInstead } from './state/meaning.js';
import { Address } from './state/address.js';
import { Store, learnFields, readHash } from './state/state.js';
import { ErrorBoard, Gate, errorsIn } from './state/requests.js';
import { Words } from './page/words.js';
import { Controls } from './controls/controls.js';
import { CurvePanel } from './panels/curve.js';
import { MechanismPanel } from './panels/mechanism.js';
import { OwnPoints } from './panels/own.js';
import { Pin } from './panels/pin.js';
import { Sentences } from './panels/sentences.js';
import { Sketch } from './panels/sketch.js';
import { SimulatePanel } from './panels/simulate.js';
import { MapPanel } from './panels/map.js';
import { Stories } from './panels/stories.js';
import { Presentation } from './page/present.js';
import { TakePanel } from './panels/take.js';
import { prepareTheme } from './page/theme.js';

const mostNames = 5; // of parts of a link that nobody knows
const longestName = 30; // characters of one

function saysIgnored(ignored) {
  if (!ignored.length) return;
  const shorten = (name) => (name.length > longestName ? `${name.slice(0, longestName)}…` : name);
  const more = ignored.length > mostNames ? ` and ${ignored.length - mostNames} more` : '';
  const names = ignored.slice(0, mostNames).map(shorten).join(', ');
  sayNotice(`Parts of the link were not understood and are left out: ${names}${more}.`);
}

function prepareDialogs(about) {
  nodeById('version').textContent = about.version;
  nodeById('guide-link').hidden = Boolean(about.offline);
  nodeById('about').addEventListener('click', () => nodeById('about-dialog').showModal());
  for (const button of document.querySelectorAll('[data-close]')) {
    button.addEventListener('click', () => nodeById(button.dataset.close).close());
  }
}

function prepareTabs(store) {
  const tabs = ['curve', 'map'].map((name) => nodeById(`tab-${name}`));
  tabs.forEach((tab, index) => {
    tab.addEventListener('click', () => store.set({ tab: tab.id.slice(4) }));
    tab.addEventListener('keydown', (event) => {
      if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
      const other = tabs[1 - index];
      other.focus();
      store.set({ tab: other.id.slice(4) });
    });
  });
}

function showTab(name) {
  for (const each of ['curve', 'map']) {
    nodeById(`panel-${each}`).hidden = each !== name;
    nodeById(`tab-${each}`).setAttribute('aria-selected', String(each === name));
    nodeById(`tab-${each}`).tabIndex = each === name ? 0 : -1;
  }
}

async function start() {
  prepareTheme();
  const api = connect();
  const about = await api.about();
  learnFields(about);
  const given = readHash(location.hash, about);
  const withView = (found) => ({ ...found, ...shownInstead({ ...about.defaults, ...found }, about) });
  const store = new Store(about, withView(given.found));
  const words = new Words(about);
  const tools = { api, about, store, words, board: new ErrorBoard(), gate: new Gate() };
  const controls = new Controls(tools);
  const sketch = new Sketch();
  let mechanism = null;
  const curve = new CurvePanel({
    ...tools,
    onExact: (state, context) => mechanism.refresh(state, context),
    onFault: () => {
      mechanism.fade();
      sketch.fade();
    },
  });
  mechanism = new MechanismPanel({ ...tools, onPoint: (answer, state) => {
    curve.setPoint(answer, state);
    sketch.show(answer, state);
  } });
  const sentences = new Sentences(tools);
  const stories = new Stories(tools);
  const pin = new Pin(tools);
  const presentation = new Presentation(tools);
  const simulate = new SimulatePanel({ ...tools, curve });
  new OwnPoints({ store, curve });
  const map = new MapPanel(tools);
  const take = new TakePanel({ ...tools, curve, map });
  prepareDialogs(about);
  prepareTabs(store);
  words.decorate();

  const show = (state, cause) => {
    controls.render(state);
    stories.render();
    presentation.render(state);
    showTab(state.tab);
    if (state.tab === 'map') {
      map.refresh(state);
    } else {
      map.rest();
      curve.refresh(state, cause);
      simulate.render(state);
      pin.render(state);
      if (cause.live) sentences.fade();
      else sentences.refresh(state);
    }
  };
  store.subscribe(show);
  const address = new Address(store);
  take.beforeLink = () => address.write();
  window.addEventListener('hashchange', () => {
    const read = readHash(location.hash, about);
    store.seal();
    address.given(() => store.set({ ...about.defaults, ...withView(read.found) }));
    store.seal();
    saysIgnored(read.ignored);
  });
  saysIgnored(given.ignored);
  show(store.state, { live: false, time: performance.now(), names: [] });
  presentation.beginIfAsked();
  document.body.classList.add('ready');
}

start().catch((error) => sayNotice(`The explorer could not start: ${errorsIn(error)[0].message}`));
