// Labels of people: kept in this browser where it lets us, and saved as the file that `svr agreement` reads.

const labels = new Map();  // id → {label, note}
const shelf = () => `svr-async labels ${last().digest}`;
const kindOfLabel = place => {
  const entry = labels.get(index.id[place]);
  if (!entry?.label) return "none";
  return entry.label === saidOf(place) ? "agree" : "disagree";
};

// Return what the judge said as a label: A, B or tie; nothing where it gave no verdict.
function saidOf(place) {
  return last().margin[place] === null ? "" : named(last().predicted, place) || "tie";
}

// With blind labelling the judge's verdict and the right answer are hidden until an item has a label.
const isBlind = place => state.blind === "1" && !labels.get(index.id[place])?.label;

function readLabels() {
  try {
    for (const [id, entry] of JSON.parse(localStorage.getItem(shelf()) ?? "[]")) labels.set(String(id), entry);
    part("labeller").value = localStorage.getItem("svr-async labeller") ?? "";
  } catch { /* a browser that keeps nothing for files: they are kept until the page is closed */ }
}

function keepLabel(id, entry) {
  if (entry.label || entry.note) labels.set(id, entry);
  else labels.delete(id);
  keepLabels();
}

function keepLabels() {
  try {
    localStorage.setItem(shelf(), JSON.stringify([...labels]));
    localStorage.setItem("svr-async labeller", part("labeller").value);
  } catch { /* as above */ }
  const given = [...labels.values()].filter(entry => entry.label).length;
  part("save-labels").textContent = `Save ${plural(given, "label")}`;
  part("labelling").hidden = labels.size === 0;
}

// `picked` says that a person chose the item: such labels tell how judge and people agree, and enter no rate.
function labelRows() {
  const labeller = part("labeller").value.trim();
  const given = [...labels].filter(([, entry]) => entry.label);
  return given.map(([id, entry]) => ({ id, label: entry.label, labeller, note: entry.note ?? "", picked: "page" }));
}

// Return the form in which a person agrees or disagrees with the verdict, and says why.
function labelForm(place) {
  const id = index.id[place], choice = isBlind(place) ? "" : saidOf(place), entry = { label: "", note: "", ...labels.get(id) };
  const box = make("fieldset", "label-box", make("legend", "", "What do you say?"));
  for (const label of ["A", "B", "tie"]) {
    const input = make("input");
    Object.assign(input, { type: "radio", name: "items-label", value: label, checked: entry.label === label });
    input.addEventListener("change", () => {
      entry.label = label;
      keepLabel(id, entry);
      if (state.blind === "1") show();
    });
    const what = `${label === "tie" ? "equally good" : `${label} is better`} (key ${["A", "B", "tie"].indexOf(label) === 2 ? 0 : ["A", "B"].indexOf(label) + 1})`;
    box.append(make("label", "", input, choice ? `${label === choice ? "Agree" : "Disagree"}: ${what}` : what));
  }
  const why = make("input", "why");
  Object.assign(why, { type: "text", value: entry.note, placeholder: "why (optional)", maxLength: 2000 });
  why.setAttribute("aria-label", "Why");
  why.addEventListener("input", () => { entry.note = why.value; keepLabel(id, entry); });
  const clear = make("button", "quiet", "No label");
  clear.type = "button";
  clear.addEventListener("click", () => {
    Object.assign(entry, { label: "", note: "" });
    box.querySelectorAll("[type=radio]").forEach(input => { input.checked = false; });
    why.value = "";
    keepLabel(id, entry);
  });
  box.append(why, clear);
  return box;
}
