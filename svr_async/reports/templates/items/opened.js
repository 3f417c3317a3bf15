// One item, opened: its texts, what each run made of it, its calls, and the form for a label.

const taste = { markdown: true, differences: true };

async function showItem(place, isCurrent) {
  const { detail, text } = await openItem(place);
  if (!isCurrent()) return;  // another was asked for meanwhile
  const box = part("opened");
  box.replaceChildren(
    heading(place), ...(isBlind(place) ? [] : index.runs.map((run, n) => verdictLine(run, detail.runs[n], place, text))),
    textsOfItem(place, detail, text), labelForm(place),
    ...(isBlind(place) ? [] : index.runs.map((run, n) => evidence(run, detail.runs[n], place, text))));
  showFound();
}

// Highlight the words that were searched for, where the browser can do so without changing the page.
function showFound() {
  if (!globalThis.Highlight) return;
  const words = state.q.trim().toLowerCase(), found = new Highlight();
  const walker = document.createTreeWalker(part("opened"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); words && node; node = walker.nextNode()) {
    const text = node.data.toLowerCase();
    for (let at = text.indexOf(words); at >= 0; at = text.indexOf(words, at + words.length)) {
      const range = new Range();
      range.setStart(node, Math.min(at, node.length));
      range.setEnd(node, Math.min(at + words.length, node.length));
      found.add(range);
    }
  }
  CSS.highlights.set("items-found", found);
}

function heading(place) {
  const at = shown.indexOf(place);
  const step = (name, to) => {
    const link = make("a", "step", name);
    if (to >= 0 && to < shown.length) link.href = addressOf({ item: index.id[shown[to]] });
    return link;
  };
  const back = make("a", "step", `All items`);
  back.href = addressOf({ item: "" });
  const title = make("h2", "", index.id[place]);
  title.tabIndex = -1;
  const where = [named(index.domain, place), named(index.subset, place)].filter(Boolean).join(" · ");
  const nav = make("nav", "steps", back);
  nav.setAttribute("aria-label", "Items");
  if (at >= 0) nav.append(step("Previous", at - 1), step("Next", at + 1), make("span", "muted", `${count(at + 1)} of ${count(shown.length)}`));
  return make("header", "item-head", nav, title, make("p", "muted", where));
}

// Say what a run decided, and how surely, in each order that was shown.
function verdictLine(run, side, place, text) {
  const said = named(run.predicted, place), result = named(run.result, place), margins = Object.entries(side.margins ?? {});
  const line = make("p", "decided", make("span", `result ${result.replace(/\W/g, "-")}`, result), " ");
  if (comparing()) line.prepend(make("strong", "", run === last() ? "Run B" : "Run A"), " ");
  line.append(said ? `chose ${said}, ` : "", `margin ${signed(run.margin[place])}`);
  if (margins.length > 1) {
    line.append(make("span", "muted", ` (${margins.map(([order, margin]) => `shown ${shownAs(order)}: ${signed(margin)}`).join(", ")}${run.swapped[place] ? "; the two orders name different sides" : ""})`));
  } else line.append(make("span", "muted", `, shown ${shownAs(named(run.order, place))}`));
  for (const flag of run.flags.codes[place]) line.append(" ", make("span", "tag", run.flags.names[flag]));
  if (side.detail !== undefined) line.append(make("small", "", text(side.detail)));
  return line;
}

function textsOfItem(place, detail, text) {
  const box = make("section", "item-texts");
  if (detail.prompt === undefined) {
    box.append(make("p", "empty", index.notes[0] ?? "The texts of this item are not in this page."));
    return box;
  }
  const [prompt, a, b] = [detail.prompt, detail.response_a, detail.response_b].map(text);
  const paint = () => {
    const apart = taste.differences ? differences(a, b) : { a: null, b: null };
    const draw = taste.markdown ? markdown : plain;
    const pair = make("div", "pair", response(place, "A", draw(a, apart.a)), response(place, "B", draw(b, apart.b)));
    box.replaceChildren(options(paint, apart), passage("prompt", [make("span", "name", "Prompt")], draw(prompt, null)), pair);
  };
  paint();
  return box;
}

// Return the two switches for how texts are shown, and how alike the responses are.
function options(paint, apart) {
  const box = make("p", "tastes");
  for (const [name, words] of [["markdown", "Markdown"], ["differences", "Mark differences"]]) {
    const input = make("input");
    Object.assign(input, { type: "checkbox", checked: taste[name], id: `items-taste-${name}` });
    input.addEventListener("change", () => {
      taste[name] = input.checked;
      paint();
      showFound();
      document.getElementById(input.id).focus();
    });
    box.append(make("label", "", input, words));
  }
  const shared = apart.shared === undefined || apart.shared === null ? "" : `${Math.round(100 * apart.shared)} % of the words are in both`;
  const alike = taste.differences && !apart.a ? `${shared ? `${shared}: ` : ""}too different to mark` : shared;
  if (taste.differences) box.append(make("span", "muted", alike));
  return box;
}

function response(place, side, content) {
  const head = [make("span", "name", `Response ${side}`)];
  const gold = !isBlind(place) && named(index.gold, place) === side;
  if (gold) head.push(make("span", "tag gold-tag", "right answer"));
  index.runs.forEach((run, n) => {
    if (isBlind(place) || named(run.predicted, place) !== side) return;
    head.push(make("span", "tag", comparing() ? `choice of run ${n ? "B" : "A"}` : "judge’s choice"));
  });
  return passage(`side-${side}${gold ? " gold" : ""}`, head, content);
}

function passage(kind, head, content) {
  const body = make("div", "passage rendered", content);
  body.tabIndex = 0;
  body.setAttribute("role", "region");
  body.setAttribute("aria-label", head[0].textContent);
  return make("div", `text ${kind}`, make("p", "text-head", ...head), body);
}

// Return what a run's verdict rests on: rubrics with signed contributions and reasons, votes, and calls.
function evidence(run, side, place, text) {
  const box = make("section", "item-evidence");
  const title = make("h3", "", comparing() ? `What decided run ${run === last() ? "B" : "A"}` : "What decided");
  box.append(title);
  if (side.rows) box.append(rubricTable(run, side, place, text));
  else box.append(make("p", "empty", "This verdict rests on no rubrics."));
  for (const one of side.verdict ?? []) box.append(make("p", "why", make("b", "", whyOf(one)), " ", text(one.text)));
  for (const vote of side.votes ?? []) box.append(make("p", "why", make("b", "", vote.judge), ` ${vote.predicted ?? "no verdict"}, margin ${signed(vote.margin)}, shown ${shownAs(vote.order)}`));
  for (const call of side.calls ?? []) box.append(exchange(call, text));
  if (!side.calls && side.keys) box.append(make("p", "empty", `Calls ${side.keys.join(", ")}: svr view --calls puts them here, svr explain --calls prints them.`));
  return box;
}

const whyOf = one => `why${[one.judge, one.shown === "ba" ? "its A is B here" : ""].filter(Boolean).map(word => ` (${word})`).join("")}:`;

function rubricTable(run, side, place, text) {
  const largest = Math.max(...side.rows.map(row => Math.abs(row.contribution ?? 0)), 1e-9);
  const several = new Set(side.rows.map(row => `${row.shown}${row.judge ?? ""}`)).size > 1;
  const body = make("tbody");
  for (const row of side.rows) {
    const name = make("th", "", make("span", "", text(row.rephrased ?? row.text)));
    const tags = [...(several ? [`shown ${shownAs(row.shown)}`, row.judge] : []), row.filler ? "filler" : ""].filter(Boolean);
    if (tags.length) name.append(" ", make("span", "tag faint", tags.join(", ")));
    if (row.reason !== undefined) name.append(make("small", "", `${whyOf(row)} ${text(row.reason)}`));
    name.scope = "row";
    const value = row.contribution ?? 0;
    body.append(make("tr", "", name, verdictCell(row, "A"), verdictCell(row, "B"), barCell(value, largest), make("td", "num", signed(value))));
  }
  const sum = make("tr", "sum", make("th", "", "Margin"), make("td"), make("td"), make("td", "pole"), make("td", "num", signed(run.margin[place])));
  const head = make("tr");
  for (const [name, kind] of [["Rubric", ""], ["A", ""], ["B", ""], ["← A \u00a0 B →", "poles-head"], ["Adds", "num"]]) {
    const cell = make("th", kind, name);
    cell.scope = "col";
    head.append(cell);
  }
  const note = "Margins are above 0 for A, below 0 for B. If both pass or both fail, the better response gets a quarter of the weight.";
  const table = make("table", "contributions", make("thead", "", head), body, make("tfoot", "", sum));
  return make("div", "wide-table", withRoles(table), make("p", "more", note));
}

// Say what the parts of a table are, which is lost where its rows are laid out as grids.
function withRoles(table) {
  const roles = { THEAD: "rowgroup", TBODY: "rowgroup", TFOOT: "rowgroup", TR: "row", TH: "rowheader", TD: "cell" };
  for (const node of table.querySelectorAll("*")) if (roles[node.tagName]) node.setAttribute("role", node.scope === "col" ? "columnheader" : roles[node.tagName]);
  table.setAttribute("role", "table");
  return table;
}

function verdictCell(row, side) {
  const chance = row.chances?.[side === "A" ? 0 : 1];
  const said = chance === undefined ? row[side.toLowerCase()] ?? "–" : `${Math.round(100 * chance)} %`;
  return make("td", `verdict ${side} ${said === "pass" || said === "fail" ? said : "none"}`, said);
}

// Return a bar from the middle: to the left what counts for A, to the right what counts for B.
function barCell(value, largest) {
  const bar = make("i", value > 0 ? "for-a" : "for-b"), size = 50 * Math.abs(value) / largest;
  bar.style.width = `${size}%`;
  bar.style.left = `${value > 0 ? 50 - size : 50}%`;
  const cell = make("td", "pole", make("span", "pole-track", bar));
  cell.setAttribute("aria-hidden", "true");
  return cell;
}

function exchange(call, text) {
  const box = make("details", "exchange", make("summary", "", `Call ${call.key}`));
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const turns = call.asked.length ? call.asked : [["request", null]];
    for (const [role, parts] of turns) {
      const words = parts ? parts.map(text).join("") : "It cannot be made out again here.";
      box.append(make("h3", "", role), make("pre", "passage", words));
    }
    box.append(make("h3", "", "reply"), make("pre", "passage", text(call.reply)));
  });
  return box;
}
