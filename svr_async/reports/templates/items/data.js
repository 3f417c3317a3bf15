// The data of the page: the index, read once, and blocks of items with their texts, opened when they are needed.

const MOST_OPEN = 80;  // blocks kept open
const opened = new Map();  // number of a block → promise of {items, texts}, the longest unused first
const parsed = new Promise(done => document.addEventListener("DOMContentLoaded", done, { once: true }));
let index = null;

async function unpack(name) {
  if (!part(name)) await parsed;  // the end of the file is not read yet
  const letters = atob(part(name).textContent), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

function openBlock(number) {
  const found = opened.get(number) ?? unpack(`block-${number}`);
  opened.delete(number);
  opened.set(number, found);
  if (opened.size > MOST_OPEN) opened.delete(opened.keys().next().value);
  return found;
}

// Return the block that a text lies in.
function blockOf(text) {
  let low = 0, high = index.starts.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (index.starts[middle] <= text) low = middle;
    else high = middle;
  }
  return low;
}

// Return what an opened item shows, with a function that gives its texts by their number.
async function openItem(place) {
  const block = await openBlock(Math.floor(place / index.block));
  const detail = block.items[place % index.block];
  const blocks = new Map();
  for (const number of new Set(textsOf(detail).map(blockOf))) blocks.set(number, await openBlock(number));
  return { detail, text: number => visible(blocks.get(blockOf(number)).texts[number - index.starts[blockOf(number)]]) };
}

// Return the numbers of all texts of an item.
function textsOf(detail) {
  const sides = detail.runs.flatMap(side => [
    side.detail,
    ...(side.rows ?? []).flatMap(row => [row.text, row.rephrased, row.reason]),
    ...(side.verdict ?? []).map(one => one.text),
    ...(side.calls ?? []).flatMap(call => [call.reply, ...call.asked.flatMap(turn => turn[1])]),
  ]);
  return [detail.prompt, detail.response_a, detail.response_b, ...sides].filter(number => number !== undefined && number !== null);
}

// Mark in `found` the items of whose texts one holds the words, a block at a time, so that the page stays free.
// `onProgress` receives the number of searched blocks and returns false to end the search.
async function searchTexts(words, found, onProgress) {
  const wanted = words.toLowerCase(), hits = new Set();
  for (let number = 0; number < index.starts.length; number++) {
    if (number + 1 < index.starts.length) openBlock(number + 1);  // unpacked during this search
    const block = await openBlock(number);
    block.texts.forEach((text, i) => text.toLowerCase().includes(wanted) && hits.add(index.starts[number] + i));
    block.items.forEach((detail, i) => {
      if (textsOf(detail).some(text => hits.has(text))) found[number * index.block + i] = 1;
    });
    if (!onProgress(number + 1)) return;
  }
}
