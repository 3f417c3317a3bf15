"""The end of `make demo`: what the trained bank is worth beside what needs no training, on pairs that none has seen.

python benchmarks/demo_end.py runs/demo                              # reads the three runs there
python benchmarks/demo_end.py runs/demo --picture docs/images/demo.svg   # and draws it with one decision explained
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

RUNS = (("longest", "the longer answer"), ("general", "checks as they come"), ("bank", "the bank you trained"))
ITEM = "made-message-05a"
NO_MODEL = "OFFLINE RULES on made pairs, no model: it shows the machinery, not what a judge is worth."
CELLS = 40  # of a bar of 100 %
COMMAND = f"svr explain runs/demo/bank {ITEM} --data runs/demo/test.jsonl"
LETTER, LINE, EDGE = 7.85, 19, 22  # a letter's width and a line's height at 13 px, the rim
COLOURS = {"A": "#57c7ff", "B": "#f3c14b", "dim": "#8b96a8", "strong": "#ffffff", "": "#c3cad6"}
SHOWN_RUBRICS = 5


def metrics_of(folder: Path, run: str) -> Mapping[str, Any]:
    metrics: dict[str, Any] = json.loads((folder / run / "metrics.json").read_text("utf-8"))
    return metrics


def bars(folder: Path) -> Iterator[str]:
    """Yield a line for each run: its name, accuracy as a bar and in percent, and its interval."""
    for run, name in RUNS:
        found = metrics_of(folder, run)
        bar = "█" * round(CELLS * found["accuracy"])
        low, high = (100 * end for end in found["accuracy_ci95"])
        yield f"{name:<21} {bar:<{CELLS}} {100 * found['accuracy']:5.1f} %  [{low:.0f}, {high:.0f}]"


def told(folder: Path) -> list[str]:
    """Return the lines of the end."""
    pairs = metrics_of(folder, "bank")["n_total"]
    head = f"Decided right, of {pairs} pairs that the training never saw, with the 95 % interval:"
    return [head, *bars(folder), NO_MODEL]


def explained(folder: Path) -> list[str]:
    """Return what `svr explain` prints of the decision, without the texts of its pair and what counts little."""
    asked = [sys.executable, "-m", "svr_async", "explain", str(folder / "bank"), ITEM, "--data", f"{folder}/test.jsonl"]
    lines = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    table = next(place for place, line in enumerate(lines) if line.startswith("rubric "))
    short = lines[: table + 1 + SHOWN_RUBRICS]
    return ["$ " + COMMAND, *(_narrowed(line) for line in short), "…"]


def _narrowed(line: str) -> str:
    """Take the width that longer rubrics need out of a line of the table."""
    return line[:50] + line[77:] if len(line) > 77 else line


def picture(folder: Path) -> str:
    """Return both as one SVG of letters, which no script and no font from elsewhere is needed for."""
    lines = [*explained(folder), "", *told(folder)]
    width = round(2 * EDGE + LETTER * max(map(len, lines)))
    height = 2 * EDGE + LINE * len(lines)
    rows = "\n".join(part for place, line in enumerate(lines) if line for part in _drawn(line, EDGE + LINE * place))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'role="img" aria-label="One decision explained by its rubrics, and the accuracy of a bank trained offline">\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="#161b22"/>\n'
        f'<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13">\n'
        f"{rows}\n</g>\n</svg>\n"
    )


def _drawn(line: str, top: int) -> Iterator[str]:
    """Yield a line's letters, each as wide as the next whatever the font, and its bar of blocks as a rectangle."""
    if blocks := line.count("█"):
        left, wide = EDGE + LETTER * line.index("█"), LETTER * blocks
        yield f'<rect x="{left:.0f}" y="{top + 3}" width="{wide:.0f}" height="12" rx="2" fill="{_colour(line)}"/>'
    letters = escape(line.rstrip().replace("█", " "), quote=False).replace(" ", "\N{NO-BREAK SPACE}")
    size = f'textLength="{LETTER * len(line.rstrip()):.0f}"'
    yield f'<text x="{EDGE}" y="{top + 13}" {size} fill="{_colour(line)}">{letters}</text>'


def _colour(line: str) -> str:
    """Return the colour of a line: towards A, towards B, what one reads first, or what stands back."""
    if line.startswith(("$ ", "Preference pairs", "rubric ", "…", NO_MODEL)):
        return COLOURS["dim"]
    if line.startswith(RUNS[-1][1]):
        return COLOURS["A"]
    if line.startswith((ITEM, "Decided")):
        return COLOURS["strong"]
    if "│" in line:
        return COLOURS["A" if line.rstrip().split(" ")[-1].startswith("+") else "B"]
    return COLOURS[""]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where make_demo_pairs.py and the runs of `make demo` are")
    parser.add_argument("--picture", type=Path, metavar="FILE.svg", help="also draw it, with one decision explained")
    given = parser.parse_args(arguments)
    print("\n".join(told(given.folder)))
    if given.picture is not None:
        given.picture.write_text(picture(given.folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
