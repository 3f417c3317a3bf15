// Which items are shown and in what order: the state of the page, written in the address behind #items?.

const EMPTY = {
  q: "", result: "", other: "", change: "", domain: "", subset: "", order: "", rubric: "", from: "", to: "", label: "",
  sort: "mistakes", item: "", chip: "", blind: "",
};
const state = { ...EMPTY };
// The surest mistakes of one run come first; of two runs those items on which they differ.
const usual = () => (comparing() ? { ...EMPTY, change: "differ", sort: "change" } : EMPTY);
const last = () => index.runs.at(-1);
const comparing = () => index.runs.length > 1;

// Read the state from the address; two runs are shown where they differ, the losses first, unless it says otherwise.
function readState() {
  const given = new URLSearchParams(location.hash.replace(/^#items\??/, ""));
  for (const name of Object.keys(EMPTY)) state[name] = given.get(name) ?? usual()[name];
}

// Return the address of the state with some parts changed.
function addressOf(changed = {}) {
  const parts = Object.entries({ ...state, ...changed }).filter(([name, value]) => value !== usual()[name]);
  const query = new URLSearchParams(parts).toString();
  return query ? `#items?${query}` : "#items";
}

const named = (column, place) => column.names[column.codes[place]];

// Return what became of an item from the first run to the second: worse, better, other (a difference) or same.
function changeOf(place) {
  const [one, two] = index.runs.map(run => named(run.result, place));
  const [before, after] = index.runs.map(run => named(run.predicted, place));
  if (one === two && before === after) return "same";
  if (one === "right") return "worse";
  return two === "right" ? "better" : "other";
}

// Return the tests that an item has to pass, one for each filter that is set; `found` marks what holds the words.
function testsOf(found) {
  const tests = [];
  const coded = (column, name) => {
    const code = column.names.indexOf(name);
    if (name) tests.push(place => column.codes[place] === code);
  };
  coded(index.domain, state.domain);
  coded(index.subset, state.subset);
  coded(index.runs[0].result, state.result);
  if (comparing()) coded(last().result, state.other);
  if (state.order === "flips") tests.push(place => last().swapped[place]);
  else coded(last().order, state.order);
  const chip = comparing() ? CHANGE_CHIPS.find(one => one[0] === state.change) : CHIPS.find(one => one[0] === state.chip);
  if (chip) tests.push(chip[2]);
  if (state.rubric) tests.push(place => last().rubrics.codes[place].includes(Number(state.rubric)));
  if (state.from) tests.push(place => sizeOf(last(), place) >= Number(state.from));
  if (state.to) tests.push(place => sizeOf(last(), place) >= 0 && sizeOf(last(), place) <= Number(state.to));
  if (state.label) tests.push(place => kindOfLabel(place) === state.label);
  if (found) tests.push(place => found[place]);
  return tests;
}

// Return the places of the items that pass, in the order wanted.
function selected(found) {
  const tests = testsOf(found), places = [];
  for (let place = 0; place < index.id.length; place++) {
    if (tests.every(test => test(place))) places.push(place);
  }
  const name = state.sort.replace(/^-/, ""), key = SORTS[name];
  if (!key) return places;
  const keys = new Map(places.map(place => [place, key(place)])), sign = state.sort[0] === "-" ? -1 : 1;
  const compare = (a, b) => (a < b ? -sign : a > b ? sign : 0);
  return places.sort((a, b) => compare(keys.get(a), keys.get(b)) || a - b);
}

// What a chip selects; one that no item passes is not shown.
const unlike = ["right", "wrong", "tie", "no right answer"];
const CHIPS = [
  ["", "all", () => true],
  ["wrong", "wrong", place => named(last().result, place) === "wrong"],
  ["close", "close", place => last().close[place] === 1],
  ["flipped", "flipped", place => last().swapped[place] === 1],
  ["no verdict", "no verdict", place => !unlike.includes(named(last().result, place))],
];
const CHANGE_CHIPS = [
  ["differ", "A and B differ", place => changeOf(place) !== "same"],
  ["worse", "only A right", place => changeOf(place) === "worse"],
  ["better", "only B right", place => changeOf(place) === "better"],
  ["all", "all", () => true],
];

const sizeOf = (run, place) => (run.margin[place] === null ? -1 : Math.abs(run.margin[place]));
const CHANGES = ["worse", "other", "better", "same"];
const CHANGE_WORDS = { worse: "only A", other: "none", better: "only B", same: "same" };
const SORTS = {
  mistakes: place => {  // wrong ones from the surest on, then those without a verdict, then right ones from the closest on
    const sign = { wrong: -1, right: 1 }[named(last().result, place)] ?? 0;
    return sign * 1e9 + sign * sizeOf(last(), place);
  },
  id: place => index.id[place],
  domain: place => named(index.domain, place),
  subset: place => named(index.subset, place),
  result: place => named(index.runs[0].result, place),
  other: place => named(last().result, place),
  margin: place => sizeOf(index.runs[0], place),
  othermargin: place => sizeOf(last(), place),
  order: place => last().swapped[place] * 10 + last().order.codes[place],
  change: place => CHANGES.indexOf(changeOf(place)) * 1e6 - sizeOf(last(), place),
  label: place => kindOfLabel(place),
};
