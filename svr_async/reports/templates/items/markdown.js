// Markdown as elements: headings, lists, tables, quotes, code, emphasis. Text nodes only; links and images are not
// followed but shown as text with their address, HTML as it was written.

const REACH = 2000;  // characters in which an emphasis must end, so that no text costs more than linear time
const DEEPEST = 6;

// Return the text as a fragment; ranges of `marks` (from `differences`) are highlighted.
function markdown(source, marks) {
  const out = document.createDocumentFragment();
  const pen = { source, marks: marks || [] };
  const lines = [...source.matchAll(/[^\n]*(?:\n|$)/g)].map(found => {
    const text = found[0].replace(/\n$/, "");
    return { text, from: found.index, to: found.index + text.length };
  });
  for (let at = 0; at < lines.length;) at = writeBlock(pen, out, lines, at);
  return out;
}

// Return the text as it is, with marks.
function plain(source, marks) {
  const out = make("div", "as-is");
  write({ source, marks: marks || [] }, out, 0, source.length);
  return out;
}

// Write the block that begins at a line; return the line after it.
function writeBlock(pen, out, lines, at) {
  const line = lines[at];
  if (!line.text.trim()) return at + 1;
  const fence = line.text.match(/^\s*(```+|~~~+)/);
  if (fence) return writeCode(pen, out, lines, at, fence[1]);
  const heading = line.text.match(/^ {0,3}(#{1,6})\s+/);
  if (heading) {
    const node = make("p", `heading level-${heading[1].length}`);
    inline(pen, node, line.from + heading[0].length, line.to, 0);
    out.append(node);
    return at + 1;
  }
  if (/^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(line.text)) return out.append(make("hr")), at + 1;
  if (line.text.includes("|") && rulesTable(lines[at + 1]?.text ?? "")) return writeTable(pen, out, lines, at);
  if (itemOf(line.text)) return writeList(pen, out, lines, at);
  if (/^ {0,3}>/.test(line.text)) {
    return writeLines(pen, out, lines, at, "blockquote", text => text.match(/^ {0,3}>\s?/)?.[0].length);
  }
  return writeLines(pen, out, lines, at, "p", (text, first) => (first || !beginsBlock(text) ? 0 : undefined));
}

const rulesTable = text => /^[\s|:-]+$/.test(text) && text.includes("-") && text.includes("|");
const itemOf = text => text.match(/^(\s*)([-*+•]|\d{1,9}[.)])\s+(?=\S)/);
const beginsBlock = text => !text.trim() || itemOf(text) || /^\s*(```|~~~)|^ {0,3}(#{1,6}\s|>)/.test(text);

// Write lines into one element for as long as `skip` tells how many characters begin each.
function writeLines(pen, out, lines, at, tag, skip) {
  const node = make(tag);
  for (let first = true; at < lines.length; at++, first = false) {
    const skipped = skip(lines[at].text, first);
    if (skipped === undefined) break;
    if (!first) node.append("\n");
    inline(pen, node, lines[at].from + skipped, lines[at].to, 0);
  }
  out.append(node);
  return at;
}

function writeCode(pen, out, lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !lines[end].text.trim().startsWith(fence)) end++;
  const code = make("code");
  if (end > at + 1) write(pen, code, lines[at + 1].from, lines[end - 1].to);
  out.append(make("pre", "", code));
  return end + 1;
}

function writeList(pen, out, lines, at) {
  const stack = [];  // of {list, indent}, the innermost last
  for (let item = null; at < lines.length; at++) {
    const found = itemOf(lines[at].text), indent = found?.[1].length;
    if (found) {
      while (stack.length > 1 && stack.at(-1).indent > indent) stack.pop();
      if (!stack.length || (indent > stack.at(-1).indent + 1 && stack.length < DEEPEST)) {
        const list = make(/\d/.test(found[2]) ? "ol" : "ul");
        if (list.tagName === "OL") list.start = parseInt(found[2], 10);
        (item ?? out).append(list);
        stack.push({ list, indent });
      }
      item = make("li");
      stack.at(-1).list.append(item);
      inline(pen, item, lines[at].from + found[0].length, lines[at].to, 0);
    } else if (item && /^\s{2,}\S/.test(lines[at].text) && !/^\s*(```|~~~)/.test(lines[at].text)) {
      item.append("\n");
      inline(pen, item, lines[at].from + lines[at].text.search(/\S/), lines[at].to, 0);
    } else if (lines[at].text.trim() || !itemOf(lines[at + 1]?.text ?? "")) break;
  }
  return at;
}

function writeTable(pen, out, lines, at) {
  const table = make("table");
  for (let row = at; row < lines.length && lines[row].text.includes("|"); at = ++row) {
    if (!rulesTable(lines[row].text)) table.append(tableRow(pen, lines[row], table.rows.length ? "td" : "th"));
  }
  out.append(make("div", "wide-table", table));
  return at;
}

function tableRow(pen, line, tag) {
  const row = make("tr");
  for (const cell of line.text.matchAll(/[^|]+/g)) {
    const lead = cell[0].length - cell[0].trimStart().length;
    if (!cell[0].trim() && (cell.index === 0 || cell.index + cell[0].length === line.text.length)) continue;
    const node = make(tag);
    inline(pen, node, line.from + cell.index + lead, line.from + cell.index + cell[0].trimEnd().length, 0);
    row.append(node);
  }
  return row;
}

// Write a stretch of one line with code, emphasis and links in it.
function inline(pen, node, from, to, depth) {
  const text = pen.source.slice(from, to);
  const special = /\\[!-/:-@[-`{-~]|`+|\*{1,3}|__|~~|!?\[/g;
  let done = 0;
  for (let found; depth < DEEPEST && (found = special.exec(text));) {
    const sign = found[0], end = endOf(text, sign, found.index);
    if (!end) continue;
    write(pen, node, from + done, from + found.index);
    const inner = make(end.tag);
    if (end.tag === "code") write(pen, inner, from + end.from, from + end.to);
    else inline(pen, inner, from + end.from, from + end.to, depth + 1);
    node.append(inner);
    if (end.after) node.append(make("span", "address", end.after));
    special.lastIndex = done = end.done;
  }
  write(pen, node, from + done, to);
}

// Return where what begins with a sign has its text and its end, or nothing where it does not end nearby.
function endOf(text, sign, at) {
  const from = at + sign.length, near = text.slice(from, from + REACH);
  if (sign[0] === "\\") return { tag: "span", from: at + 1, to: at + 2, done: at + 2 };
  if (sign.endsWith("[")) {
    const link = near.match(/^([^\[\]]*)\]\(([^()\s]*)\)/);
    const after = link && `${sign[0] === "!" ? " (image: " : " ("}${link[2]})`;
    return link && { tag: "span", from, to: from + link[1].length, done: from + link[0].length, after };
  }
  const to = near.indexOf(sign);
  if (to < 1 || (sign[0] !== "`" && (/^\s/.test(near) || /\s/.test(near[to - 1])))) return null;
  const tag = { "`": "code", "~": "del", "_": "strong" }[sign[0]] ?? (sign.length === 1 ? "em" : "strong");
  return { tag, from, to: from + to, done: from + to + sign.length };
}

// Append a stretch of the source as text nodes, inside <mark> where it is marked.
function write(pen, node, from, to) {
  for (const [low, high] of pen.marks) {
    if (high <= from) continue;
    if (low >= to) break;
    if (low > from) node.append(pen.source.slice(from, low));
    node.append(make("mark", "", pen.source.slice(Math.max(low, from), Math.min(high, to))));
    from = Math.min(high, to);
  }
  if (from < to) node.append(pen.source.slice(from, to));
}
