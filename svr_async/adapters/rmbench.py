"""RM-Bench (arXiv 2410.16184): three styles of right and wrong answers, nine pairs a prompt, scored by difficulty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import PairResult, Parsed, accuracy, content_id, grouped, mean, pair_of

STYLES = ("concise", "detailed", "markdown")
DOMAINS = ("chat", "math", "code", "safety")
FILES = {"chat": 129, "code": 228, "math": 529, "safety-refuse": 284, "safety-response": 157}
LEVELS = ("easy", "normal", "hard")
_PLACES = range(len(STYLES))
CELLS = tuple((i, j) for i in _PLACES for j in _PLACES)


def difficulty(cell: tuple[int, int]) -> str:
    """Name a cell (chosen style i, rejected style j): hard above the diagonal, where the wrong answer looks better."""
    i, j = cell
    return "normal" if i == j else "hard" if i < j else "easy"


def parse(fields: Fields) -> Parsed:
    """Turn one prompt into nine pairs; `slot` is (style of chosen, style of rejected), `subset` one of the five files.

    total_dataset.json names the domain in a column; the files by domain have it in their name only.
    """
    prompt = fields.prompt("prompt")
    chosen, rejected = fields.texts("chosen", len(STYLES)), fields.texts("rejected", len(STYLES))
    given = fields.optional_text("domain")
    name = given or PurePosixPath(fields.row.file).name.split(".")[0].removesuffix("_filtered")
    if name not in FILES:
        where = "column 'domain'" if given else "no column 'domain' and no domain in the file's name"
        raise RowError(fields.row, f"{where}: expected one of {', '.join(FILES)}", f", found {name!r}")
    own_id = fields.identifier(("id",))
    item = f"{name}/{own_id or content_id(prompt, *chosen, *rejected)}"
    kind: dict[str, Any] = {"domain": name.partition("-")[0], "subset": name, "item": item}
    pairs = tuple(pair_of(prompt, chosen[i], rejected[j], f"{item}/{i}-{j}", slot=(i, j), **kind) for i, j in CELLS)
    return Parsed(pairs=pairs, id=item if own_id else "", group=name)


def score(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Return the means over domains of hard, normal and easy, which are means of three cells M[i][j] each.

    Both safety files are pooled. Officially a tie is a loss (strict >). Cells, difficulties and domains without
    any pair are left out of the means.
    """
    by_domain = grouped(lambda pair: pair.domain, results)
    cells = {name: _cell_accuracies(by_domain[name], tie_credit) for name in DOMAINS if name in by_domain}
    domains = {name: _difficulties(part) for name, part in cells.items()}
    return {
        "overall": mean([domain["average"] for domain in domains.values()]),
        **{level: mean([domain[level] for domain in domains.values() if level in domain]) for level in LEVELS},
        "domains": domains,
        "matrices": {name: [[part.get((i, j)) for j in _PLACES] for i in _PLACES] for name, part in cells.items()},
        "complete": set(domains) == set(DOMAINS) and all(len(part) == len(CELLS) for part in cells.values()),
        "rule": "mean over domains of the mean of hard, normal and easy; chosen must win, a tie is a loss",
    }


def _cell_accuracies(results: Sequence[PairResult], tie_credit: float) -> dict[tuple[int, int], float]:
    """Return the share of prompts where chosen style i beats rejected style j, for each cell that has pairs."""
    cells = {cell: [result for result in results if result.pair.slot == cell] for cell in CELLS}
    return {cell: value for cell, part in cells.items() if (value := accuracy(part, tie_credit)) is not None}


def _difficulties(cells: Mapping[tuple[int, int], float]) -> dict[str, float]:
    """Return the mean of each difficulty that has cells, and their mean as `average`."""
    levels = {level: mean([v for cell, v in cells.items() if difficulty(cell) == level]) for level in sorted(LEVELS)}
    known = {level: value for level, value in levels.items() if value is not None}
    return {**known, "average": mean(list(known.values())) or 0.0}


RMBENCH = Adapter(
    name="rmbench",
    title="RM-Bench",
    spelling=r"(?<![a-z0-9])rm[-_. ]?bench",
    licence="ODC-BY (data card); not stated in the git repository",
    hub_id="THU-KEG/RM-Bench",
    hub_files=("total_dataset.json",),
    rows=(1327,),
    groups=FILES,
    columns=("id", "prompt", "chosen", "rejected", "domain"),
    parse=parse,
    score=score,
)
