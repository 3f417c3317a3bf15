"""The Ties score of RewardBench 2: right answers should beat wrong ones by more than they differ among themselves."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.adapters.records import PairResult, mean

TIES = "Ties"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """One prompt's completions: `diff` = max − min over right answers, `gap` = least right − greatest wrong."""

    diff: float
    gap: float

    @property
    def accurate(self) -> bool:
        """Whether every right answer is above every wrong one."""
        return self.gap > 0


_LOST = Spread(diff=math.inf, gap=-math.inf)  # a prompt with a completion that no verdict mentions


def completion_scores(results: Sequence[PairResult]) -> dict[int, float | None]:
    """Return each completion's mean signed margin over its scored pairs, by position; None where it has none."""
    margins: dict[int, list[float]] = defaultdict(list)
    for result in results:
        first, second = result.pair.slot
        signed = [] if result.margin is None else [result.margin]
        margins[first] += signed
        margins[second] += [-margin for margin in signed]
    return {position: mean(values) for position, values in margins.items()}


def spread(results: Sequence[PairResult]) -> Spread:
    """Return one prompt's spread; a prompt where a completion has no scored pair counts as lost in every term."""
    scores = completion_scores(results)
    right = {result.pair.slot[0] for result in results if result.pair.has_preference}
    good = [score for position, score in scores.items() if position in right]
    bad = [score for position, score in scores.items() if position not in right]
    known_good = [score for score in good if score is not None]
    known_bad = [score for score in bad if score is not None]
    if not good or not bad or len(known_good) < len(good) or len(known_bad) < len(bad):
        return _LOST
    return Spread(diff=max(known_good) - min(known_good), gap=min(known_good) - max(known_bad))


def ties_score(results: Sequence[PairResult]) -> dict[str, float] | None:
    """Return the official score with its parts, and `score_raw_difference` as the paper's code has it; None of nothing.

    0.30 · accurate(tied) + 0.30 · accurate(ref) + 0.20 · [gap_tied > diff] + 0.20 · [min(gap_ref, gap_tied) > diff]
    + 0.01 · last, each a mean over prompts, the last three over prompts that have both a ref and a tied item;
    diff is the tied item's. Officially last = tanh(min(gap_ref, gap_tied) / diff − 1), with 0/0 giving 0 and x/0 ±1;
    the paper's code takes the raw difference min(gap_ref, gap_tied) − diff. The maximum is a little above 1.
    """
    if not results:
        return None
    spreads = _spreads(results)
    ref, tied = spreads["ref"], spreads["tied"]
    both = [(tied[n].diff, tied[n].gap, min(ref[n].gap, tied[n].gap)) for n in sorted(tied.keys() & ref.keys())]
    parts = {
        "accurate_tied": _share([s.accurate for s in tied.values()]),
        "accurate_ref": _share([s.accurate for s in ref.values()]),
        "gap_above_diff": _share([gap > diff for diff, gap, _ in both]),
        "hard_gap_above_diff": _share([hard > diff for diff, _, hard in both]),
    }
    weights = (0.30, 0.30, 0.20, 0.20)
    base = math.fsum(w * part for w, part in zip(weights, parts.values(), strict=True))
    ratio = mean([bounded_ratio(hard, diff) for diff, _, hard in both]) or 0.0
    raw = mean([raw_difference(hard, diff) for diff, _, hard in both]) or 0.0
    return {"score": base + 0.01 * ratio, "score_raw_difference": base + 0.01 * raw, **parts, "tanh_ratio": ratio}


def _spreads(results: Sequence[PairResult]) -> dict[str, dict[str, Spread]]:
    """Group results by item and return the spreads as {"ref": {n: …}, "tied": {n: …}}."""
    by_item: dict[str, list[PairResult]] = defaultdict(list)
    for result in results:
        by_item[result.pair.item].append(result)
    found: dict[str, dict[str, Spread]] = {"ref": {}, "tied": {}}
    for item, part in by_item.items():
        kind, _, number = item.rpartition("/")[2].partition(":")
        found[kind][number] = spread(part)
    return found


def bounded_ratio(gap: float, diff: float) -> float:
    """Return tanh(gap / diff − 1) ∈ [−1, 1]; 0/0 gives 0, x/0 gives ±1, a lost prompt −1."""
    if math.isinf(gap):
        return -1.0
    if diff == 0:
        return float((gap > 0) - (gap < 0))
    return math.tanh(gap / diff - 1)


def raw_difference(gap: float, diff: float) -> float:
    """Return gap − diff; a lost prompt adds −1, since it has no finite difference."""
    return -1.0 if math.isinf(gap) or math.isinf(diff) else gap - diff


def _share(flags: Sequence[bool]) -> float:
    return mean([float(flag) for flag in flags]) or 0.0
