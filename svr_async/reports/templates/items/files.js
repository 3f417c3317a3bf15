// Files of the rows shown: the columns of the index, as CSV or JSON Lines.

const FORMULA = /^[=+\-@\t\r]/;

// Return a row for each item shown, with the columns of every run.
function exportRows() {
  return shown.map(place => {
    const row = { id: index.id[place], domain: named(index.domain, place), subset: named(index.subset, place), gold: named(index.gold, place) || null };
    index.runs.forEach((run, n) => {
      const own = {
        outcome: named(run.outcome, place), result: named(run.result, place), predicted: named(run.predicted, place) || null,
        margin: run.margin[place], order: named(run.order, place), flips: Boolean(run.swapped[place]),
        flags: run.flags.codes[place].map(code => run.flags.names[code]).join(" "),
      };
      for (const [name, value] of Object.entries(own)) row[n ? `${name}_2` : name] = value;
    });
    return row;
  });
}

// Return a value as a cell of CSV; a text that a spreadsheet would calculate begins with an apostrophe.
function csvCell(value) {
  if (typeof value !== "string") return value === null ? "" : String(value);
  const text = visible(FORMULA.test(value) ? `'${value}` : value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function csvOf(some) {
  return [Object.keys(some[0] ?? {}), ...some.map(Object.values)].map(row => `${row.map(csvCell).join(",")}\r\n`).join("");
}

const linesOf = some => some.map(row => `${JSON.stringify(row)}\n`).join("");

function save(name, text) {
  const link = make("a"), address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
