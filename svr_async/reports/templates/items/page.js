// The page: the address decides the view, and clicks change the address.

let search = { words: "", found: null };  // the items whose texts hold the words
let wanted = 0;  // counts what was asked for, so that an older answer is dropped

// Go to the state with some parts changed; filters replace the address, an item opened is a step in the history.
function go(changed) {
  const address = addressOf(changed);
  if ("item" in changed) location.hash = address;
  else {
    history.replaceState(null, "", address);
    show();
  }
}

const openAt = at => shown.length && (active = at, go({ item: index.id[shown[at]] }));

async function show() {
  if (!index) return;
  readState();
  // an opened item has the page to itself
  document.documentElement.classList.toggle("at-item", Boolean(state.item));
  for (const node of document.querySelectorAll("header.masthead, .hero, .notes, #rest, .colophon")) node.hidden = Boolean(state.item);
  part("notes").hidden = false;
  fillForm();
  await lookFor(state.q.trim());
  if (location.hash.startsWith("#items") && !state.item) part("main").scrollIntoView();
}

// Show what passes the filters; the texts are searched block by block where the words are new.
async function lookFor(words) {
  const mine = ++wanted;
  if (!words) search = { words, found: null };
  else if (search.words !== words) {
    search = { words, found: Uint8Array.from(index.id, id => (id.toLowerCase().includes(words.toLowerCase()) ? 1 : 0)) };
    let lastShown = performance.now();
    refresh("searching …");
    await searchTexts(words, search.found, done => {
      if (mine === wanted && performance.now() - lastShown > 200) {
        lastShown = performance.now();
        refresh(`searching, ${count(done)} of ${plural(index.starts.length, "block")} …`);
      }
      return mine === wanted;
    });
    if (mine !== wanted) { search = { words: null, found: null }; return; }
  }
  refresh();
  await showOpened(mine);
}

function refresh(progress = "") {
  showRows(selected(search.found));
  part("status").textContent = `${count(shown.length)} of ${plural(index.id.length, "item")}${progress ? `, ${progress}` : ""}`;
}

async function showOpened(mine) {
  const place = state.item ? index.id.indexOf(state.item) : -1, was = part("list").hidden;
  if (place >= 0) await showItem(place, () => mine === wanted);
  else if (state.item) part("status").textContent = `no item ${visible(state.item)} in this page`;
  if (mine !== wanted) return;
  part("list").hidden = place >= 0;
  part("opened").hidden = place < 0;
  if (place >= 0) {
    active = Math.max(0, shown.indexOf(place));
    part("opened").querySelector("h2").focus({ preventScroll: true });
    scrollTo(0, 0);
  } else if (was) focusRow(active);
}

// ---- The form of filters

const FIELDS = ["q", "result", "other", "domain", "subset", "order", "rubric", "from", "to", "label"];

function buildForm() {
  const counted = (column, codes) => {
    const counts = new Array(column.names.length).fill(0);
    for (const code of codes ?? column.codes) counts[code]++;
    return column.names.map((name, code) => [name, `${name || "none"} (${count(counts[code])})`, counts[code]]);
  };
  const byCount = rows => rows.sort((a, b) => b[2] - a[2]);
  offer("result", byCount(counted(index.runs[0].result)));
  offer("other", comparing() ? byCount(counted(last().result)) : []);
  offer("domain", counted(index.domain));
  offer("subset", counted(index.subset));
  const flips = last().swapped.filter(Boolean).length;
  offer("order", [...counted(last().order).map(([value, words]) => [value, words.replace(/^\w+/, shownAs)]), ...(flips ? [["flips", `the two name different sides (${count(flips)})`]] : [])]);
  const rubrics = counted(last().rubrics, last().rubrics.codes.flat());
  offer("rubric", rubrics.map(([, words], code) => [String(code), words.length > 90 ? `${words.slice(0, 88)}…` : words]));
  offer("label", [["agree", "agree"], ["disagree", "disagree"], ["none", "no label"]]);
  if (comparing()) part("result").closest("label").firstElementChild.textContent = "Run A";
  for (const name of FIELDS) {
    part(name).addEventListener(part(name).tagName === "SELECT" ? "change" : "input", later(name === "q" ? 150 : 0, () => go({ [name]: part(name).value })));
  }
  part("filters").addEventListener("submit", event => event.preventDefault());
  part("clear").addEventListener("click", () => go({ ...Object.fromEntries(FIELDS.map(name => [name, ""])), chip: "", change: comparing() ? "all" : "" }));
  part("blind").addEventListener("click", () => go({ blind: state.blind ? "" : "1", sort: state.blind ? usual().sort : "", chip: "", result: "" }));
  const key = comparing() ? "change" : "chip";  // of one run chips choose by result, of two runs by how they differ
  for (const [value, words, test] of comparing() ? CHANGE_CHIPS : CHIPS) {
    const n = index.id.filter((_, place) => test(place)).length;
    if (!n) continue;
    const chip = make("button", "chip", `${words} ${count(n)}`);
    Object.assign(chip, { type: "button" });
    chip.dataset.chip = value;
    chip.addEventListener("click", () => go({ [key]: value }));
    part("chips").append(chip);
  }
}

// Fill a list of choices; one with fewer than two of them is not shown.
function offer(name, choices) {
  part(name).replaceChildren(...[["", "any"], ...choices].map(([value, words]) => {
    const option = make("option", "", words);
    option.value = value;
    return option;
  }));
  part(name).closest("label").hidden = choices.length < 2;
}

function fillForm() {
  part("blind").setAttribute("aria-pressed", String(state.blind === "1"));
  part("chips").hidden = state.blind === "1";
  for (const chip of part("chips").children) chip.setAttribute("aria-pressed", String(chip.dataset.chip === (comparing() ? state.change : state.chip)));
  for (const name of FIELDS) if (part(name) !== document.activeElement || name !== "q") part(name).value = state[name];
}

function later(wait, act) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    if (wait) timer = setTimeout(act, wait);
    else act();
  };
}

// ---- Keys, and the beginning

function onKey(event) {
  const typing = event.target.matches("input, select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey ) return;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    if (state.item) go({ item: "" });
    setTimeout(() => part("q").focus(), state.item ? 50 : 0);
  } else if (event.key === "Escape") {
    if (event.target === part("q")) { part("q").value = ""; go({ q: "" }); focusRow(active); }
    else if (state.item) go({ item: "" });
  } else if (state.item && !event.target.matches("input:not([type=radio]), textarea") && event.key in { 1: 0, 2: 0, 0: 0 }) {
    document.querySelector(`.label-box input[value=${{ 1: "A", 2: "B", 0: "tie" }[event.key]}]`)?.click();
  } else if (state.item && !typing && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
    const at = shown.indexOf(index.id.indexOf(state.item)) + (event.key === "ArrowLeft" ? -1 : 1);
    if (shown[at] !== undefined && !event.target.closest(".passage")) openAt(at);
  } else if (event.key === "ArrowDown" && event.target === part("q")) {
    event.preventDefault();
    focusRow(active);
  }
}

async function begin() {
  part("main").hidden = false;
  addEventListener("hashchange", show);
  try {
    index = await unpack("index");
  } catch (error) {
    part("status").textContent = `This browser cannot open the items: ${error.message}`;
    return;
  }
  for (const note of index.notes) part("notes").append(make("li", "", note));
  readState();
  readLabels();
  buildForm();
  buildTable();
  keepLabels();
  part("csv").addEventListener("click", () => save("items.csv", csvOf(exportRows())));
  part("jsonl").addEventListener("click", () => save("items.jsonl", linesOf(exportRows())));
  part("save-labels").addEventListener("click", () => save("labels.jsonl", linesOf(labelRows())));
  part("labeller").addEventListener("input", keepLabels);
  document.addEventListener("keydown", onKey);
  await show();
  performance.mark("items-shown");
}

begin();
