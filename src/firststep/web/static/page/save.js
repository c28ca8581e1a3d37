// Saving what is on the page as files. Nothing leaves the machine.

function saveBlob(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  document.body.appendChild(link);
  link.click();
  link.remove();
  // some browsers read the address only after the click has returned
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export function saveText(name, text, type = 'text/plain') {
  saveBlob(name, new Blob([text], { type: `${type};charset=utf-8` }));
}

const crcTable = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = crcTable[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

// A chunk iTXt of a PNG: a keyword and a text in UTF-8, neither compressed nor translated.
function textChunk(keyword, text) {
  const data = new TextEncoder().encode(`iTXt${keyword}\0\0\0\0\0${text}`);
  const chunk = new Uint8Array(data.length + 8);
  const view = new DataView(chunk.buffer);
  view.setUint32(0, data.length - 4);
  chunk.set(data, 4);
  view.setUint32(data.length + 4, crc32(data));
  return chunk;
}

const headerEnd = 33; // of a PNG: the signature and the chunk IHDR come first

export function withTexts(png, texts) {
  const chunks = Object.entries(texts).map(([keyword, text]) => textChunk(keyword, text));
  return new Blob([png.slice(0, headerEnd), ...chunks, png.slice(headerEnd)], { type: 'image/png' });
}

// `texts`: what the file says of itself besides the picture.
export async function savePNG(name, svg, texts = {}, scale = 2) {
  // a data address, not a blob one: some browsers lock the canvas after drawing an SVG from a blob
  const image = new Image();
  await new Promise((resolve, reject) => {
    image.onload = resolve;
    image.onerror = () => reject(new Error('the browser could not draw the figure'));
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  });
  const canvas = document.createElement('canvas');
  canvas.width = Math.round(image.naturalWidth * scale);
  canvas.height = Math.round(image.naturalHeight * scale);
  const context = canvas.getContext('2d');
  context.fillStyle = '#ffffff';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise(resolve => canvas.toBlob(resolve, 'image/png'));
  if (!blob) throw new Error('the browser could not make a PNG file');
  saveBlob(name, withTexts(new Uint8Array(await blob.arrayBuffer()), texts));
}

// Rows as comma separated text; missing values are empty fields.
export function csvOf(rows) {
  return `${rows.map(row => row.map(csvField).join(',')).join('\n')}\n`;
}

function csvField(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '';
  const text = String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
