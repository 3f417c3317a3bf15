// The page: from the address to what is shown, and from what a person does to the address.

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
  const here = location.hash.startsWith("#items") || (!location.hash && part("main").dataset.first === "yes");
  for (const node of document.body.children) {
    if (!["SCRIPT", "NOSCRIPT"].includes(node.tagName) && node !== part("views")) node.hidden = here !== (node === part("main"));
  }
  document.documentElement.classList.toggle("at-items", here);
  part("views").querySelectorAll("a").forEach((link, i) => link.toggleAttribute("aria-current", here === (i === 1)));
  if (!here || !index) return;
  readState();
  fillForm();
  await lookFor(state.q.trim());
}

// Show what passes the filters; the texts are searched block by block where the words are new.
async function lookFor(words) {
  const mine = ++wanted;
  if (!words) search = { words, found: null };
  else if (search.words !== words) {
    search = { words, found: Uint8Array.from(index.id, id => (id.toLowerCase().includes(words.toLowerCase()) ? 1 : 0)) };
    let told = performance.now();
    refresh("searching …");
    await searchTexts(words, search.found, done => {
      if (mine === wanted && performance.now() - told > 200) {
        told = performance.now();
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
  else if (state.item) part("status").textContent = `there is no item ${visible(state.item)} in this page`;
  if (mine !== wanted) return;
  part("list").hidden = place >= 0;
  part("opened").hidden = place < 0;
  if (place >= 0) {
    active = Math.max(0, shown.indexOf(place));
    part("opened").querySelector("h1").focus({ preventScroll: true });
    scrollTo(0, 0);
  } else if (was) focusRow(active);
}

// ---- The form of filters

const FIELDS = ["q", "result", "other", "change", "domain", "subset", "order", "rubric", "from", "to", "label"];

function buildForm() {
  const counted = (column, codes) => {
    const counts = new Array(column.names.length).fill(0);
    for (const code of codes ?? column.codes) counts[code]++;
    return column.names.map((name, code) => [name, `${name || "none"} (${count(counts[code])})`, counts[code]]);
  };
  const byCount = rows => rows.sort((a, b) => b[2] - a[2]);
  offer("result", byCount(counted(index.runs[0].result)));
  offer("other", beside() ? byCount(counted(last().result)) : []);
  offer("change", beside() ? [["all", "all items"], ["differ", "where they differ"], ["worse", "right, then not"], ["better", "not, then right"]] : []);
  offer("domain", counted(index.domain));
  offer("subset", counted(index.subset));
  const flips = last().swapped.filter(Boolean).length;
  offer("order", [...counted(last().order).map(([value, words]) => [value, words.replace(/^\w+/, shownAs)]), ...(flips ? [["flips", `the two name different sides (${count(flips)})`]] : [])]);
  const rubrics = counted(last().rubrics, last().rubrics.codes.flat());
  offer("rubric", rubrics.map(([, words], code) => [String(code), words.length > 90 ? `${words.slice(0, 88)}…` : words]));
  offer("label", [["agree", "agree"], ["disagree", "disagree"], ["none", "no label"]]);
  if (beside()) part("result").closest("label").firstElementChild.textContent = "First run";
  for (const name of FIELDS) {
    part(name).addEventListener(part(name).tagName === "SELECT" ? "change" : "input", later(name === "q" ? 150 : 0, () => go({ [name]: part(name).value })));
  }
  part("filters").addEventListener("submit", event => event.preventDefault());
  part("clear").addEventListener("click", () => go(Object.fromEntries(FIELDS.map(name => [name, name === "change" && beside() ? "all" : ""]))));
  part("more").open = !matchMedia("(max-width: 44rem)").matches;
}

// Fill a list of choices; one with fewer than two of them is not shown.
function offer(name, choices) {
  const first = name === "change" ? [] : [["", "any"]];
  part(name).replaceChildren(...[...first, ...choices].map(([value, words]) => {
    const option = make("option", "", words);
    option.value = value;
    return option;
  }));
  part(name).closest("label").hidden = choices.length < 2;
}

function fillForm() {
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
  if (event.ctrlKey || event.metaKey || event.altKey || !document.documentElement.classList.contains("at-items")) return;
  if (event.key === "/" && !typing) {
    event.preventDefault();
    if (state.item) go({ item: "" });
    setTimeout(() => part("q").focus(), state.item ? 50 : 0);
  } else if (event.key === "Escape") {
    if (event.target === part("q")) { part("q").value = ""; go({ q: "" }); focusRow(active); }
    else if (state.item) go({ item: "" });
  } else if (state.item && !typing && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
    const at = shown.indexOf(index.id.indexOf(state.item)) + (event.key === "ArrowLeft" ? -1 : 1);
    if (shown[at] !== undefined && !event.target.closest(".passage")) openAt(at);
  } else if (event.key === "ArrowDown" && event.target === part("q")) {
    event.preventDefault();
    focusRow(active);
  }
}

async function begin() {
  part("views").hidden = false;
  addEventListener("hashchange", show);
  show();
  if (!part("block-0")) parsed.then(show);  // what stands below is not read yet
  try {
    index = await unpack("index");
  } catch (error) {
    part("status").textContent = `This browser cannot open the items: ${error.message}`;
    return;
  }
  for (const note of index.notes) part("notes").append(make("li", "", note));
  for (const run of index.runs) part("runs").append(make("li", "", run.caption));
  buildForm();
  buildTable();
  readLabels();
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
