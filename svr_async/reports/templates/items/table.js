// The table of items: a grid of which only the rows in sight are elements, all of one height.

const SPARE = 6;  // rows above and below those in sight
const MOST_PRINTED = 500;
const rows = [];  // the elements, used again while the table moves
let shown = [];  // places of the items in the table
let active = 0;  // the row that has the focus, as its place in `shown`
let drawn = [-1, -1];
let columns = [];

function columnsOf() {
  const [one, two] = index.runs;
  const result = run => place => make("span", `result ${named(run.result, place).replace(/\W/g, "-")}`, named(run.result, place));
  const margin = run => place => signed(run.margin[place]);
  const item = { name: "Prompt", sort: "id", kind: "item", cell: nameCell };
  const several = column => index[column].names.length > 1;
  const hidden = cell => place => (isBlind(place) ? "" : cell(place));
  const domain = { name: "Domain", sort: "domain", kind: "words", cell: place => named(index.domain, place) };
  const label = { name: "Label", sort: "label", kind: "label", cell: place => ({ none: "" })[kindOfLabel(place)] ?? kindOfLabel(place) };
  if (!two) {
    const subset = { name: "Subset", sort: "subset", kind: "words", cell: place => named(index.subset, place) };
    return [item, { name: "Result", sort: "result", kind: "verdict", cell: hidden(result(one)) },
      ...(several("domain") ? [domain] : []), ...(several("subset") ? [subset] : []),
      { name: "Margin", sort: "margin", kind: "num", cell: hidden(margin(one)) }, ...(labels.size ? [label] : [])];
  }
  return [item, { name: "Right", sort: "change", kind: "change", cell: hidden(place => make("span", `result ${changeOf(place)}`, CHANGE_WORDS[changeOf(place)])) },
    ...(several("domain") ? [domain] : []),
    { name: "Run A", sort: "result", kind: "verdict", cell: hidden(result(one)) },
    { name: "Margin", sort: "margin", kind: "num first", cell: hidden(margin(one)) },
    { name: "Run B", sort: "other", kind: "verdict", cell: hidden(result(two)) },
    { name: "Margin", sort: "othermargin", kind: "num", cell: hidden(margin(two)) }];
}

function nameCell(place) {
  const link = make("a", "", index.prompt[place] || index.id[place]);
  link.href = addressOf({ item: index.id[place] });
  link.tabIndex = -1;
  const tags = isBlind(place) ? [] : CHIPS.filter(([name, , test]) => ["close", "flipped"].includes(name) && test(place)).map(([name]) => make("span", "tag faint", name));
  return make("span", "name", link, " ", ...tags, make("small", "", index.prompt[place] ? index.id[place] : named(index.domain, place)));
}

const rowHeight = () => (matchMedia("(max-width: 44rem)").matches ? 66 : 52);

function buildTable() {
  columns = columnsOf();
  const head = make("tr");
  head.setAttribute("role", "row");
  columns.forEach((column, i) => {
    const cell = make("th", column.kind), button = make("button", "", column.name);
    Object.assign(button, { type: "button", disabled: !column.sort });
    button.addEventListener("click", () => go({ sort: nextSort(column) }));
    cell.setAttribute("role", "columnheader");
    cell.setAttribute("aria-colindex", i + 1);
    cell.append(column.sort ? button : column.name);
    head.append(cell);
  });
  part("head").replaceChildren(head);
  part("grid").setAttribute("aria-colcount", columns.length);
  part("scroll").addEventListener("scroll", () => draw());
  addEventListener("resize", () => draw(true));
  addEventListener("beforeprint", () => draw(true, true));
  addEventListener("afterprint", () => draw(true));
  part("rows").addEventListener("click", event => {
    const row = event.target.closest("tr[data-at]");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openAt(Number(row.dataset.at));
  });
  part("rows").addEventListener("keydown", moveFocus);
}

// Numbers begin with the largest, words with the first; a third press goes back to the order of the data.
function nextSort(column) {
  const large = column.kind.startsWith("num") || column.sort === "order";
  const turns = large ? [`-${column.sort}`, column.sort] : [column.sort, `-${column.sort}`];
  return state.sort === turns[0] ? turns[1] : state.sort === turns[1] ? "" : turns[0];
}

function showRows(places) {
  shown = places;
  active = Math.min(active, Math.max(0, shown.length - 1));
  part("grid").setAttribute("aria-rowcount", shown.length + 1);
  [...part("head").rows[0].cells].forEach((cell, i) => {
    const sort = columns[i].sort, direction = { [sort]: "ascending", [`-${sort}`]: "descending" }[state.sort];
    if (direction) cell.setAttribute("aria-sort", direction);
    else cell.removeAttribute("aria-sort");
  });
  part("empty").hidden = shown.length > 0;
  draw(true);
}

// Draw the rows in sight, and leave the height of all others above and below them.
function draw(anew = false, printed = false) {
  const height = rowHeight(), scroll = part("scroll");
  const first = printed ? 0 : Math.max(0, Math.min(Math.floor(scroll.scrollTop / height), shown.length - 1) - SPARE);
  const most = printed ? MOST_PRINTED : Math.ceil(scroll.clientHeight / height) + 2 * SPARE;
  const end = Math.min(shown.length, first + most);
  if (!anew && first === drawn[0] && end === drawn[1]) return;
  const focused = part("rows").contains(document.activeElement);
  while (rows.length < end - first) rows.push(newRow());
  const visibleRows = [];
  for (let at = first; at < end; at++) visibleRows.push(fillRow(rows[at % rows.length], at));
  part("rows").replaceChildren(pad(first * height), ...visibleRows, pad((shown.length - end) * height));
  drawn = [first, end];
  if (focused) (rowAt(active) ?? scroll).focus({ preventScroll: true });
}

function newRow() {
  const row = make("tr");
  row.setAttribute("role", "row");
  columns.forEach((column, i) => {
    const cell = make("td", column.kind);
    cell.setAttribute("role", "gridcell");
    cell.setAttribute("aria-colindex", i + 1);
    row.append(cell);
  });
  return row;
}

function fillRow(row, at) {
  const place = shown[at];
  row.dataset.at = at;
  row.tabIndex = at === active ? 0 : -1;
  row.setAttribute("aria-rowindex", at + 2);
  columns.forEach((column, i) => {
    const value = column.cell(place);
    row.cells[i].replaceChildren(value instanceof Node ? value : visible(value));
  });
  return row;
}

function pad(height) {
  const cell = make("td"), row = make("tr", "pad", cell);
  cell.style.height = `${height}px`;
  row.setAttribute("aria-hidden", "true");
  row.hidden = height === 0;
  return row;
}

const rowAt = at => part("rows").querySelector(`tr[data-at="${at}"]`);

function moveFocus(event) {
  const page = Math.max(1, Math.floor(part("scroll").clientHeight / rowHeight()) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key === "Enter") openAt(active);
  else if (event.key in steps) focusRow(active + steps[event.key]);
  else return;
  event.preventDefault();
}

// Bring a row into sight and give it the focus.
function focusRow(at) {
  active = Math.max(0, Math.min(shown.length - 1, at));
  const scroll = part("scroll"), height = rowHeight(), head = part("head").offsetHeight;
  const top = active * height, bottom = top + height - (scroll.clientHeight - head);
  if (scroll.scrollTop > top) scroll.scrollTop = top;
  else if (scroll.scrollTop < bottom) scroll.scrollTop = bottom;
  draw(true);
  rowAt(active)?.focus({ preventScroll: true });
}
