// Light or dark: auto follows the system. Kept for the next visit where the browser lets us.
import { nodeById } from './tools.js';

const themeKey = 'firststep-theme';

function applyTheme(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function prepareTheme() {
  let theme = 'auto';
  try {
    theme = localStorage.getItem(themeKey) || 'auto';
  } catch { /* a page from a file or a private window may have no storage */ }
  const select = nodeById('theme');
  if (!['auto', 'light', 'dark'].includes(theme)) theme = 'auto';
  select.value = theme;
  applyTheme(theme);
  select.addEventListener('change', () => {
    applyTheme(select.value);
    try {
      localStorage.setItem(themeKey, select.value);
    } catch { /* the choice then lasts as long as the page */ }
  });
}
