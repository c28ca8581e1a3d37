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

export async function savePNG(name, svg, scale = 2) {
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
  saveBlob(name, blob);
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
