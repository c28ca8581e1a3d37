// What outlives a reload in this tab: simulated points and own ones. A private window or a file may
// keep nothing.
const mostKept = 500000; // characters

export function keepInTab(name, value) {
  try {
    const text = JSON.stringify(value);
    if (text.length <= mostKept) sessionStorage.setItem(`firststep-${name}`, text);
  } catch { /* then it is lost with a reload */ }
}

// A list; what cannot be read is none.
export function keptInTab(name) {
  try {
    const found = JSON.parse(sessionStorage.getItem(`firststep-${name}`));
    return Array.isArray(found) ? found : [];
  } catch {
    return [];
  }
}
