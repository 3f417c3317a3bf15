// Where two texts differ: the longest common subsequence of their words; no marks where little is shared.

const MOST_CELLS = 6e6;  // of the table that is filled
const LEAST_SHARED = 0.5;  // of the words of the longer text

// Return {a, b, shared}: ranges [from, to) of either text that the other does not have, and the share of equal words.
// a and b are null where the texts are too long, or too different for marks to say anything.
function differences(a, b) {
  const left = wordsOf(a), right = wordsOf(b);
  let head = 0, tail = 0;
  const most = Math.min(left.length, right.length);
  while (head < most && left[head].text === right[head].text) head++;
  while (tail < most - head && left.at(-1 - tail).text === right.at(-1 - tail).text) tail++;
  const mine = left.slice(head, left.length - tail), other = right.slice(head, right.length - tail);
  if (mine.length * other.length > MOST_CELLS) return { a: null, b: null, shared: null };
  const same = commonWords(mine, other);
  const words = some => some.filter(word => word.text.trim()).length;
  const equal = words(left) - words(mine) + words(mine.filter((_, i) => same.mine[i]));
  const shared = equal / Math.max(1, words(left), words(right));
  if (shared < LEAST_SHARED) return { a: null, b: null, shared };
  return { a: ranges(mine, same.mine), b: ranges(other, same.other), shared };
}

function wordsOf(text) {
  return [...text.matchAll(/\s+|[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu)].map(found => ({ text: found[0], from: found.index }));
}

function commonWords(mine, other) {
  const wide = other.length + 1, best = new Uint16Array((mine.length + 1) * wide);
  for (let i = mine.length - 1; i >= 0; i--) {
    for (let j = other.length - 1; j >= 0; j--) {
      best[i * wide + j] = mine[i].text === other[j].text
        ? best[(i + 1) * wide + j + 1] + 1
        : Math.max(best[(i + 1) * wide + j], best[i * wide + j + 1]);
    }
  }
  const same = { mine: new Uint8Array(mine.length), other: new Uint8Array(other.length) };
  for (let i = 0, j = 0; i < mine.length && j < other.length;) {
    if (mine[i].text === other[j].text) same.mine[i++] = same.other[j++] = 1;
    else if (best[(i + 1) * wide + j] >= best[i * wide + j + 1]) i++;
    else j++;
  }
  return same;
}

// Return the ranges of words that are not the same; white space between two of them belongs to them.
function ranges(words, same) {
  const found = [];
  words.forEach((word, i) => {
    const between = !word.text.trim() && i > 0 && i + 1 < words.length && !same[i - 1] && !same[i + 1];
    if (same[i] && !between) return;
    const to = word.from + word.text.length, last = found.at(-1);
    if (last && last[1] === word.from) last[1] = to;
    else found.push([word.from, to]);
  });
  return found;
}
