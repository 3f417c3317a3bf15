"""Fit and measure the weights of `svr_async/judges/rules/judge.py` on real preference pairs.

    python benchmarks/paper/general_checks.py --data PATH/rmb          report on the held half of the prompts
    python benchmarks/paper/general_checks.py --data PATH/rmb --fit    fit on the other half, print the table
    … --llmbar PATH/llmbar --pandalm PATH/pandalm                      report on these as well

`--data` is a folder of RMB (`Pairwise_set/**/*.json` or `.json.gz`). Halves are picked by a hash of the conversation,
so that no prompt is in both. Results are those of offline checks with no model behind them, none of the paper's.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from svr_async.core.pair import Presentation, Prompt, parse_prompt, user_prompt
from svr_async.core.rubric import Check
from svr_async.judges.rules.judge import RulesJudge, compare_findings, view_of, view_of_prompt
from svr_async.judges.rules.registry import bound
from svr_async.judges.rules.safety import danger

PENALTIES = (0.0005, 0.001, 0.002, 0.004)
SMALLEST = 0.075
STEP = 0.05
FOLDS = 5
BOOTSTRAPS = 1000
BY_HAND = {Check.of("helps_when_harmless"): 0.3}


def _each(name: str, key: str, *values: int) -> list[Check]:
    return [Check.of(name, **{key: value}) for value in values]


_NAMES = """
    bold bullet_list numbered_list headings table structured no_emoji no_exclamation_marks closed_marks link
    code_when_asked python_parses json_parses brackets_in_code fences_named commented_code same_language
    keeps_one_script closing_offer no_ai_talk no_repetition rich_vocabulary connected complete_ending no_profanity
    own_words no_restating gives_steps names_source quotes_text arithmetic_right keeps_numbers latex_balanced
    refuses_harm no_instant_compliance no_steps_to_harm names_concerns
"""
CANDIDATES = [
    *_each("min_words", "n", 10, 25, 50, 100, 200, 400),
    *_each("min_sentences", "n", 2, 3, 5),
    *_each("min_paragraphs", "n", 2, 3, 6),
    *_each("developed_when_harmless", "n", 25, 50, 100, 200, 400),
    *_each("brief_on_harm", "n", 50, 100, 200),
    *_each("refusal_of_length", "n", 20, 40, 80),
    *_each("max_paragraph_words", "n", 75, 100, 150),
    *_each("max_sentence_words", "n", 18, 22),
    *_each("covers_keywords", "percent", 25, 50, 75),
    *_each("min_numbers", "n", 1, 3),
    *_each("max_grade", "n", 10, 12),
    *_each("above_grade", "n", 8, 10),
    *map(
        Check.of,
        _NAMES.split(),
    ),
]


@dataclass(frozen=True, slots=True)
class Pair:
    """A labelled pair with the group it is reported under."""

    prompt: Prompt
    chosen: str
    rejected: str
    group: str

    @property
    def digest(self) -> bytes:
        """A hash of the conversation: byte 0 picks the half, byte 1 the fold."""
        turns = [[turn.role, turn.content] for turn in self.prompt]
        return hashlib.sha256(json.dumps(turns).encode()).digest()


def read_json(path: Path) -> Any:
    """Read a JSON file, gzipped or not."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def read_rmb(folder: Path) -> Iterator[Pair]:
    """Yield the pairs of RMB; pairs with an empty answer or two equal ones are left out."""
    files = [path for path in sorted((folder / "Pairwise_set").rglob("*.json*")) if path.is_file()]
    if not files:
        raise SystemExit(f"{folder} has no Pairwise_set/**/*.json: give the folder that holds Pairwise_set")
    for path in files:
        group = path.relative_to(folder / "Pairwise_set").parts[0].lower()
        for row in read_json(path):
            chosen, rejected = row["chosen"]["answer"], row["reject"]["answer"]
            if chosen.strip() and rejected.strip() and chosen != rejected:
                yield Pair(parse_prompt(row["conversation_input"]), chosen, rejected, group)


def read_llmbar(folder: Path) -> Iterator[Pair]:
    """Yield LLMBar's five subsets."""
    for path in sorted((folder / "LLMBar").rglob("dataset.json*")):
        for row in read_json(path):
            label = int(row["label"])
            chosen, rejected = row[f"output_{label}"], row[f"output_{3 - label}"]
            yield Pair(user_prompt(row["input"]), chosen, rejected, f"llmbar {path.parent.name}")


def read_pandalm(folder: Path) -> Iterator[Pair]:
    """Yield PandaLM's test pairs on which two of three annotators agree."""
    for path in sorted(folder.glob("testset-v1.json*")):
        for row in read_json(path):
            votes = [int(row[f"annotator{i}"]) for i in (1, 2, 3)]
            for winner in (1, 2):
                if votes.count(winner) >= 2:
                    text = row["instruction"] + (f"\n\n{row['input']}" if row["input"] else "")
                    answers = str(row[f"response{winner}"]), str(row[f"response{3 - winner}"])
                    yield Pair(user_prompt(text), *answers, "pandalm")


def features(pairs: list[Pair], checks: list[Check]) -> np.ndarray:
    """Return the pair score of each check, chosen minus rejected; 0 where it does not apply or sees no difference."""
    decides = [bound(check) for check in checks]
    z = np.zeros((len(pairs), len(checks)))
    for row, pair in enumerate(pairs):
        prompt, chosen, rejected = view_of_prompt(pair.prompt), view_of(pair.chosen), view_of(pair.rejected)
        for column, decide in enumerate(decides):
            a = decide(prompt, chosen)
            b = None if a is None else decide(prompt, rejected)
            if a is not None and b is not None:
                z[row, column] = compare_findings("r", a, b).delta or 0.0
    return z


def fit(z: np.ndarray, penalty: float) -> np.ndarray:
    """Minimise mean softplus(−margin) + penalty · sum of weights over weights that are not negative."""

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        margin = z @ weights
        gradient = -(z.T @ (1.0 / (1.0 + np.exp(margin)))) / len(z) + penalty
        return float(np.logaddexp(0.0, -margin).mean() + penalty * weights.sum()), gradient

    bounds = [(0.0, None)] * z.shape[1]
    return minimize(loss, np.zeros(z.shape[1]), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 500}).x


def accuracy(margin: np.ndarray) -> float:
    """Return the share of positive margins; a margin of 0 counts half."""
    return float(((margin > 1e-9) + 0.5 * (np.abs(margin) <= 1e-9)).mean())


def choose_penalty(z: np.ndarray, folds: np.ndarray) -> float:
    """Return the penalty with the best cross-validated accuracy; prompts stay together in a fold."""
    scores = {}
    for penalty in PENALTIES:
        parts = [accuracy(z[folds == k] @ fit(z[folds != k], penalty)) for k in range(FOLDS)]
        scores[penalty] = float(np.mean(parts))
        print(f"penalty {penalty}: cross-validated accuracy {100 * scores[penalty]:.2f} %")
    return max(scores, key=lambda penalty: scores[penalty])


def print_table(pairs: list[Pair]) -> None:
    """Fit on the pairs of the fitting half and print the table for judge.py."""
    z = features(pairs, CANDIDATES)
    penalty = choose_penalty(z, np.array([pair.digest[1] % FOLDS for pair in pairs]))
    weights = np.round(fit(z, penalty) / STEP) * STEP
    chosen = {c: float(w) for c, w in zip(CANDIDATES, weights, strict=True) if w >= SMALLEST} | BY_HAND
    for check, weight in sorted(chosen.items(), key=lambda entry: (-entry[1], entry[0].name, entry[0].args)):
        print(f"    ({check.name!r}, {dict(check.args)!r}, {weight:.2f}),")


async def judge_margins(pairs: list[Pair]) -> np.ndarray:
    """Return the margin of the rules judge for each pair, positive towards the chosen response."""
    judge = RulesJudge()
    margins = []
    for pair in pairs:
        shown = Presentation(pair_id="p", prompt=pair.prompt, response_a=pair.chosen, response_b=pair.rejected)
        answer = await judge.prefer(shown)
        margins.append(answer.value.margin if answer.value else 0.0)
    return np.array(margins)


def interval(margin: np.ndarray, digests: list[bytes]) -> tuple[float, float]:
    """Return a 95 % interval of the accuracy by resampling prompts, since one prompt has several pairs."""
    _, groups = np.unique(np.array([digest.hex() for digest in digests]), return_inverse=True)
    points = (margin > 1e-9) + 0.5 * (np.abs(margin) <= 1e-9)
    sums, counts = np.bincount(groups, points), np.bincount(groups)
    rng = np.random.default_rng(0)
    picks = rng.integers(0, len(sums), (BOOTSTRAPS, len(sums)))
    scores = sums[picks].sum(1) / counts[picks].sum(1)
    return float(np.quantile(scores, 0.025)), float(np.quantile(scores, 0.975))


def report(pairs: list[Pair]) -> None:
    """Print accuracy against the longer answer, by group."""
    margins = asyncio.run(judge_margins(pairs))
    longer = np.array([float(len(pair.chosen) - len(pair.rejected)) for pair in pairs])
    groups = np.array([pair.group for pair in pairs])
    print(f"{'group':28} {'pairs':>6} {'longer':>7} {'rules':>7}  95 % interval")
    for group in [*dict.fromkeys(groups), *(["all"] if len(set(groups)) > 1 else [])]:
        rows = np.flatnonzero((groups == group) | (group == "all"))
        low, high = interval(margins[rows], [pairs[row].digest for row in rows])
        numbers = f"{100 * accuracy(longer[rows]):7.1f} {100 * accuracy(margins[rows]):7.1f}"
        print(f"{group:28} {len(rows):6} {numbers}  [{100 * low:.1f}, {100 * high:.1f}]")


def report_danger(pairs: list[Pair]) -> None:
    """Print how well the sense of danger tells harmful from everyday prompts."""
    prompts = {pair.digest: pair for pair in pairs}.values()
    scores = {"harmlessness": [], "helpfulness": []}
    for pair in prompts:
        scores[pair.group].append(danger(view_of_prompt(pair.prompt)))
    harmful, everyday = (np.array(scores[group])[:, None] for group in scores)
    auc = float(((harmful > everyday.T) + 0.5 * (harmful == everyday.T)).mean())
    print(f"danger: area under the curve {auc:.3f} over {len(harmful)} harmful and {len(everyday)} everyday prompts")


def main() -> None:
    """Read the arguments and print tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of RMB")
    parser.add_argument("--fit", action="store_true", help="fit on the fitting half and print the table of weights")
    parser.add_argument("--llmbar", type=Path, help="folder of LLMBar")
    parser.add_argument("--pandalm", type=Path, help="folder of PandaLM")
    options = parser.parse_args()
    pairs = list(read_rmb(options.data))
    if options.fit:
        print_table([pair for pair in pairs if not pair.digest[0] & 1])
        return
    held = [pair for pair in pairs if pair.digest[0] & 1]
    print("Offline checks, no model. RMB: the half of the prompts that was not fitted on.")
    report(held)
    report_danger(held)
    if options.llmbar:
        report(list(read_llmbar(options.llmbar)))
    if options.pandalm:
        report(list(read_pandalm(options.pandalm)))


if __name__ == "__main__":
    main()
