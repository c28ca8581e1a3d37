// The only way to the numbers: the server, or in a single-file page the grid that is shipped with
// it.
import { offlineApi } from './offline.js';

export class ApiError extends Error {
  constructor(status, errors) {
    super(errors.map((each) => each.message).join('\n'));
    this.name = 'ApiError';
    this.status = status;
    this.errors = errors;
  }
}

function serverSays(status, message) {
  return new ApiError(status, [{ parameter: 'server', message }]);
}

async function send(path, body, signal) {
  const request = { signal, headers: { 'Content-Type': 'application/json' } };
  if (body !== undefined) Object.assign(request, { method: 'POST', body: JSON.stringify(body) });
  try {
    return await fetch(path, request);
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw serverSays(0, 'the explorer does not answer: is firststep explore still running?');
  }
}

async function refusalOf(response) {
  try {
    const told = await response.json();
    return new ApiError(response.status, told.errors || [{ parameter: 'server', message: told.message }]);
  } catch {
    return serverSays(response.status, `the explorer answered with status ${response.status}`);
  }
}

async function ask(path, body, signal) {
  const response = await send(path, body, signal);
  if (!response.ok) throw await refusalOf(response);
  return response.json();
}

// Calls onLine with every JSON line of a stream; ends when the stream does.
async function follow(path, body, signal, onLine) {
  const response = await send(path, body, signal);
  if (!response.ok) throw await refusalOf(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) if (line) onLine(JSON.parse(line));
  }
}

export function connect() {
  const shipped = document.getElementById('offline');
  if (shipped) return offlineApi(JSON.parse(shipped.textContent), (status, errors) => new ApiError(status, errors));
  const api = {
    about: () => ask('api/about'),
    simulate: (body, signal, onLine) => follow('api/simulate', body, signal, onLine),
  };
  for (const call of ['curve', 'band', 'point', 'words', 'weights', 'map', 'estimate', 'take']) {
    api[call] = (body, signal) => ask(`api/${call}`, body, signal);
  }
  return api;
}
