"""Read the numbers of the paper's tables and text out of its LaTeX again, and compare them with `printed.toml`.

    python benchmarks/paper/read_latex.py support-vector-rubrics.tex            the differences; 0 where there is none
    python benchmarks/paper/read_latex.py support-vector-rubrics.tex --write    the tables as TOML, for a look

Tables are read cell by cell, so a number that is in one of the two alone is found whichever it is. Of the text, each
number of `printed.toml` has to stand on the line that it names, and each number of a figure's caption and of the prose
that is about results has to be in `printed.toml`, on its line; what is cited, labelled or typeset is no number.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from svr_async.reproduction.printed import Printed, PrintedRow, Value, load_printed

WORDS = (
    (r"\ourmethod{}", "SVR"), (r"$\to$", "->"), (r"$-$", "-"), (r"$\Delta$", "Delta"), (r"\quad", ""), (r"\%", "%"),
    (r"$\mathcal{L}_{\text{div}}$", "L_div"), (r"$\lambda_{\text{sup}}$", "lambda_sup"),
    (r"$\lambda_{\text{adv}}$", "lambda_adv"), (r"$w_{\min}$", "w_min"), (r"$\tau$", "tau"), ("{,}", ""),
    (r"\mathrm{e}{-", "e-"), ("+", ""), ("~", " "),
)  # fmt: skip
DRESS = re.compile(r"\\(?:textbf|underline|textit|emph|text)\{([^{}]*)\}")
SPANS = re.compile(r"\\multirow\{\d+\}\{\*\}\{([^{}]*)\}")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
NO_NUMBERS = re.compile(
    r"\\(?:cite[a-z]*|citep|citet|ref|label|texttt|includegraphics|begin|end|input|vspace)\*?(?:\[[^\]]*\])*\{[^{}]*\}"
    r"|\[[^\]]*pt\]|GPT-[\w.-]+|Qwen[\w.-]+|Gemini-[\w.-]+|DeepSeek-[\w.-]+|HelpSteer3|RewardBench(?:~| )?[\d\\&]*"
    r"|Case~?\s?\d|A100|RM-R1|[A-Za-z_]_\{?\w+\}?|C\(\d,\d\)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTable:
    """A table as the LaTeX has it: its label, the line of the label, and its rows with a value or more."""

    label: str
    line: int
    rows: tuple[PrintedRow, ...]


def plain(cell: str) -> str:
    """Return a cell without its dress: bold, underlines, spans, mathematics."""
    for mark, word in WORDS:
        cell = cell.replace(mark, word)
    while (bare := SPANS.sub(r"\1", DRESS.sub(r"\1", cell))) != cell:
        cell = bare
    return re.sub(r"\s+", " ", cell.replace("$", "").replace("}", "").replace("{", "")).strip()


def value_of(cell: str) -> float | None:
    """Return the number that a plain cell is; None for a text, or nothing."""
    return float(cell) if NUMBER.fullmatch(cell) else None


def tables(lines: Sequence[str]) -> Iterator[ReadTable]:
    """Yield the tables with a label, in the order of the LaTeX."""
    begun, found = 0, ""
    for place, line in enumerate(lines):
        if re.match(r"\s*\\begin\{table\*?\}", line):
            begun, found = place, ""
        if label := re.search(r"\\label\{(tab:\w+)\}", line):
            found, label_line = label[1], place + 1
        if re.match(r"\s*\\end\{table\*?\}", line) and found:
            yield ReadTable(label=found, line=label_line, rows=tuple(_rows(found, lines, begun, place)))


def _rows(label: str, lines: Sequence[str], begun: int, end: int) -> Iterator[PrintedRow]:
    if label == "tab:bank_examples":
        yield from _examples(lines, begun, end)
        return
    group = ""
    for place in range(begun, end):
        text = lines[place].strip()
        if span := SPANS.fullmatch(text):
            group = span[1]
        if not text.endswith("\\\\") or "&" not in text:
            continue
        cells = [plain(cell) for cell in re.split(r"(?<!\\)&", text.removesuffix("\\\\"))]
        if label == "tab:hparams":
            yield from _setting(group, cells, place + 1)
        elif label == "tab:domain_net_advantage":
            for name, net in (cells[:2], cells[2:]):
                yield from _row([name], [net], place + 1)
        else:
            first = next((n for n, cell in enumerate(cells) if value_of(cell) is not None), len(cells))
            yield from _row(cells[:first], cells[first:], place + 1)


def _row(names: Sequence[str], cells: Sequence[str], line: int) -> Iterator[PrintedRow]:
    values = [value for value in map(value_of, cells) if value is not None]
    if values:
        yield PrintedRow(line=line, names=tuple(filter(None, names)), values=tuple(values))


def _setting(group: str, cells: Sequence[str], line: int) -> Iterator[PrintedRow]:
    if cells[2] == "Value":
        return
    number = value_of(cells[2])
    value: Value = cells[2] if number is None else number
    yield PrintedRow(line=line, names=(group, cells[1]), values=(value,))


def _examples(lines: Sequence[str], begun: int, end: int) -> Iterator[PrintedRow]:
    """Yield how many examples a domain has; their texts are not taken over."""
    group, first, counts = "", 0, Counter[str]()
    for place in range(begun, end):
        text = lines[place].strip()
        if span := re.match(r"\\multirow\{\d+\}\{\*\}\{(\w+)\}", text):
            group, first = span[1], place + 1
        if group and text.endswith("\\\\"):
            counts[group] += 1
        if group and text in (r"\midrule", r"\bottomrule"):
            yield PrintedRow(line=first, names=(group,), values=(float(counts[group]),))
            group = ""


def numbers_in(line: str) -> list[float]:
    """Return the numbers of a line of prose."""
    text = NO_NUMBERS.sub(" ", line.replace("{,}", "").replace(r"$-", "$ -"))
    text = text.replace(r"$-$", " -").replace("{\\to}", " ").replace("K$", "000").replace("$K", "000")
    return [float(found) for found in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?", text)]


def differences(lines: Sequence[str], printed: Printed) -> list[str]:
    """Return what is in one of the two alone, a line each."""
    read = list(tables(lines))
    held = {table.label: table for table in printed.tables}
    found = [f"{label} is in printed.toml alone" for label in held.keys() - {table.label for table in read}]
    for table in read:
        if table.label not in held:
            found.append(f"{table.label} is in the LaTeX alone")
            continue
        own = held[table.label]
        found += [] if own.line == table.line else [f"{table.label}: line {table.line}, in printed.toml {own.line}"]
        ours, theirs = set(own.rows), set(table.rows)
        found += [f"{table.label}: the LaTeX alone has {row}" for row in table.rows if row not in ours]
        found += [f"{table.label}: printed.toml alone has {row}" for row in own.rows if row not in theirs]
    return found + list(_in_text(lines, printed))


def _in_text(lines: Sequence[str], printed: Printed) -> Iterator[str]:
    for number in printed.numbers:
        line = lines[number.line - 1] if number.line <= len(lines) else ""
        if number.value not in numbers_in(line):
            yield f"{number.label} {number.name}: {number.value:g} is not on line {number.line}"
    for place, line in enumerate(lines, start=1):
        known = {number.value for number in printed.numbers if number.line == place}
        if known:
            for value in numbers_in(line):
                if value not in known and value not in printed.passed_over(place):
                    yield f"line {place}: {value:g} is not in printed.toml"


def as_toml(read: Sequence[ReadTable]) -> str:
    """Return tables as printed.toml has them, without the names of columns."""
    found = []
    for table in read:
        rows = ",\n".join(
            f"  {{ line = {row.line}, names = {json.dumps(row.names)}, values = {_listed(row.values)} }}"
            for row in table.rows
        )
        found.append(f'[["table"]]\nlabel = "{table.label}"\nline = {table.line}\nrows = [\n{rows},\n]\n')
    return "\n".join(found)


def _listed(values: Sequence[Value]) -> str:
    return f"[{', '.join(json.dumps(value) if isinstance(value, str) else f'{value:g}' for value in values)}]"


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("latex", type=Path, help="the paper's LaTeX")
    parser.add_argument("--write", action="store_true", help="print the tables as TOML")
    flags = parser.parse_args()
    lines = flags.latex.read_text("utf-8").splitlines()
    if flags.write:
        print(as_toml(list(tables(lines))))
        return 0
    printed = load_printed()
    found = differences(lines, printed)
    print("\n".join(found) or f"no difference: {printed.count} numbers of {len(printed.tables)} tables and the text")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
