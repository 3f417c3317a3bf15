"""Public preference data read by source: one list of pairs for each set that people or models labelled on their own.

`READERS` says what there is. A source is counted where the shipped bank answers for it, and learned from; the others
are only reported. RMB comes in subsets: one for each kind of helpful task, one for harmful requests.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from svr_async.adapters import get_adapter
from svr_async.core.pair import PreferencePair, Prompt, hashed_fraction, parse_prompt, prompt_text, user_prompt
from svr_async.training.running.data import usable

SALT = "sources"
TIED = 1.5  # AlpacaEval's preference where neither is better
_REQUEST = re.compile(
    r"###The instruction to evaluate:\n(.*?)\n+###Response to evaluate:\n(.*?)\n+###(?:Reference|Score)(.*)", re.DOTALL
)
_USER_TURN = re.compile(r"(?:^|\n)User: ?(.*?)(?=\n+Assistant:)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A set of pairs: its name and family, and whether it is counted; one that is not is never learned from."""

    name: str
    family: str
    counted: bool = True


def read_all(data: Path) -> dict[Source, list[PreferencePair]]:
    """Return the usable pairs of each source below a folder; ids are unique, the domain is the source's name."""
    found: dict[Source, list[PreferencePair]] = {}
    for family, (counted, read) in READERS.items():
        by_name: dict[str, list[PreferencePair]] = defaultdict(list)
        for name, pair in read(data):
            by_name[name].append(pair)
        found |= {Source(name=name, family=family, counted=counted): named(name, by_name[name]) for name in by_name}
    return found


def named(name: str, pairs: Iterable[PreferencePair]) -> list[PreferencePair]:
    """Return the usable pairs of a source with its name as domain, numbered."""
    kept = [pair for pair in pairs if usable(pair) and pair.chosen.strip() and pair.rejected.strip()]
    return [replace(pair, id=f"{name}-{number}", domain=name, subset="") for number, pair in enumerate(kept)]


def write_pairs(path: Path, pairs: Iterable[PreferencePair]) -> None:
    """Write pairs as the adapter `pairs` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(_row(pair)) + "\n" for pair in pairs)


def read_pairs(path: Path) -> list[PreferencePair]:
    """Read what `write_pairs` wrote."""
    return list(get_adapter("pairs").load(path).pairs)


def _row(pair: PreferencePair) -> dict[str, Any]:
    return {
        "id": pair.id,
        "prompt": [{"role": turn.role, "content": turn.content} for turn in pair.prompt],
        "response_a": pair.response_a,
        "response_b": pair.response_b,
        "label": "A" if pair.chosen_first else "B",
        "domain": pair.domain,
    }


# ── readers: (folder of all data) → (name of the source, pair) ──────────────────────────────────────────────────────

Named = Iterator[tuple[str, PreferencePair]]


def adapted(name: str, adapter: str, place: str) -> Callable[[Path], Named]:
    """Return a reader of one source by one of the package's adapters."""

    def read(data: Path) -> Named:
        for pair in get_adapter(adapter).load(data / place, lenient=True).pairs:
            yield name, pair

    return read


def pandalm(data: Path) -> Named:
    """Yield PandaLM's test pairs on which two of three annotators agree."""
    for row in read_json(data / "pandalm/testset-v1.json.gz"):
        votes = [int(row[f"annotator{n}"]) for n in (1, 2, 3)]
        for winner in (1, 2):
            if votes.count(winner) >= 2:
                text = row["instruction"] + (f"\n\n{row['input']}" if row["input"] else "")
                yield "pandalm", made_pair(user_prompt(text), row[f"response{winner}"], row[f"response{3 - winner}"])


def rmb(data: Path) -> Named:
    """Yield RMB's pairs, one source for each kind of helpful task and one for harmful requests."""
    for pair in get_adapter("rmb").load(data / "rmb/Pairwise_set").pairs:
        kind = "harmless" if pair.domain == "harmlessness" else pair.subset.split("/", 1)[0].lower().replace(" ", "-")
        yield f"rmb-{kind}", pair


def by_folder(name: str, place: str) -> Callable[[Path], Named]:
    """Return a reader of LLMBar's files, a source for each folder that holds one."""

    def read(data: Path) -> Named:
        for path in sorted((data / place).rglob("dataset.json*")):
            for pair in get_adapter("pairs").load(path, lenient=True).pairs:
                yield f"{name}-{path.parent.name}", pair

    return read


def alpaca(data: Path) -> Named:
    """Yield AlpacaEval's comparisons of three models with GPT-4; a preference of 1.5 is a tie and left out."""
    for path in sorted((data / "alpaca_eval").rglob("annotations.json*")):
        for row in read_json(path):
            if row["preference"] != TIED:
                second = row["preference"] > TIED
                answers = (row["output_2"], row["output_1"]) if second else (row["output_1"], row["output_2"])
                yield "alpaca-eval", made_pair(parse_prompt(row["instruction"]), *answers)


def hhh(data: Path) -> Named:
    """Yield the HHH alignment pairs, which stand in two whole grading requests."""
    for row in read_json(data / "prometheus_eval/hhh_alignment_eval.json.gz"):
        (prompt, chosen, _), (other, rejected, _) = map(
            request, (row["chosen_instruction"], row["rejected_instruction"])
        )
        if prompt == other:
            yield "prometheus-hhh", made_pair(parse_prompt(prompt), chosen, rejected)


def mt_bench(data: Path) -> Named:
    """Yield pairs of answers to one request under one score rubric whose mean of three scores differs.

    Each model answered after its own first answer, so the prompt has the user's turns alone.
    """
    asked: dict[int, list[tuple[float, str]]] = defaultdict(list)
    prompts: dict[int, Prompt] = {}
    for row in read_json(data / "prometheus_eval/mt_bench_eval.json.gz"):
        dialogue, answer, _ = request(row["instruction"])
        turns = [turn.strip() for turn in _USER_TURN.findall(f"{dialogue}\n\nAssistant:")] or [dialogue]
        prompts[row["idx"]] = parse_prompt([{"role": "user", "content": turn} for turn in turns])
        asked[row["idx"]].append((float(np.mean(row["gpt4_score"])), answer))
    for number, scored in asked.items():
        for low, high in combinations(sorted(scored), 2):
            if low[0] < high[0]:
                yield "prometheus-mt-bench", made_pair(prompts[number], high[1], low[1])


def request(text: str) -> tuple[str, str, str]:
    """Return the instruction, the response and the rest (the score rubric) of a grading request; ValueError if none."""
    match = _REQUEST.search(text)
    if match is None:
        raise ValueError(f"no grading request: {text[:80]!r}")
    return match[1].strip(), match[2].strip(), match[3].strip()


def made_pair(prompt: Prompt, chosen: str, rejected: str) -> PreferencePair:
    """Return a pair whose order is drawn from its texts."""
    first = hashed_fraction(SALT, prompt_text(prompt), chosen, rejected) < 0.5
    return PreferencePair(id="", prompt=prompt, chosen=chosen, rejected=rejected, chosen_first=first)


def read_json(path: Path) -> Any:
    """Read a JSON file, gzipped or not."""
    return json.loads(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())


READERS: Mapping[str, tuple[bool, Callable[[Path], Named]]] = {
    "rmb": (True, rmb),
    "hh": (True, adapted("hh-harmless", "pairs", "hh_rlhf")),
    "pandalm": (True, pandalm),
    "helpsteer3": (True, adapted("helpsteer3-card", "helpsteer3", "helpsteer3_card_examples")),
    "alpaca-eval": (True, alpaca),
    "hhh": (True, hhh),
    "mt-bench": (True, mt_bench),
    "dpo-demo": (False, adapted("dpo-demo", "pairs", "llamafactory_dpo_demo")),
    "processed": (False, by_folder("people", "llmbar/Processed")),
    "rm-bench": (False, adapted("rm-bench", "rmbench", "rm_bench")),
    "llmbar": (False, by_folder("llmbar", "llmbar/LLMBar")),
}
