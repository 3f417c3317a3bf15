"""Ways of learning which checks to trust from several sources, by name.

A learner is a function from the sources that are learned from to a `Decide`, which gives the margin of each pair of any
source. To try another one, write it and add it to `LEARNERS`. Settings are chosen inside the sources that are learned
from, each of them left out in turn (`cautious`); the source that a learner is then asked about never has a say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scores import logistic, points
from sources_data import Judged, joined, without_prompts_of
from sources_fit import default_fit
from sources_moments import Moments, moments, pooled, random_effects, solve

from svr_async.core.rubric import Check

Decide = Callable[[Judged], np.ndarray]
Learner = Callable[[Sequence[Judged]], Decide]
Weigh = Callable[[Sequence[Judged]], np.ndarray]

ENOUGH = 30  # a source with fewer pairs says nothing on its own
PENALTIES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # from little to much; at the end nearly the mean z of each check
SPARSE = (0.003, 0.01, 0.02, 0.04)
AGREEMENT = (0.5, 0.6, 0.7, 0.8, 0.9)
ROUNDS = 8
FEW = 2  # so many sources do not tell what sources have in common
FOLDS = 5
LENGTH = ("min_words", "max_words", "min_characters", "max_characters")


def weighing(weigh: Weigh) -> Learner:
    """Return the learner that has one weight a check, the same for every prompt."""

    def learn(sources: Sequence[Judged]) -> Decide:
        weight = weigh(sources)
        return lambda judged: judged.z @ weight

    return learn


# ── choosing a setting inside the training sources ──────────────────────────────────────────────────────────────────


def cautious(choices: Sequence[Weigh], *, bold: bool = False) -> Weigh:
    """Return the last of `choices`, which go from bold to careful, that is within a standard error of the best.

    With `bold`, the best itself.

    Each source is left out in turn, and all count the same; of one or two sources, each of `FOLDS` parts by prompts.
    The standard error is that of the difference to the best over the sources. Source: the one-standard-error rule,
    Breiman et al. 1984, Classification and Regression Trees, §3.4.3.
    """

    def weigh(sources: Sequence[Judged]) -> np.ndarray:
        large = enough(sources)
        large = large if len(large) > FEW else by_prompts(large)
        gained = np.array([_left_out(choices, large, place) for place in range(len(large))])
        place = int(gained.mean(axis=0).argmax()) if bold else within_one_error(gained)
        return choices[place](sources)

    return weigh


def guarded(choices: Sequence[Weigh]) -> Weigh:
    """Return what `cautious` chooses, or the length alone where no choice beats the longest answer on left-out sources.

    Few sources that contradict each other have nothing in common to learn; the mean over them says so.
    """

    def weigh(sources: Sequence[Judged]) -> np.ndarray:
        large = enough(sources)
        large = large if len(large) > FEW else by_prompts(large)
        gained = np.array([_left_out(choices, large, place) for place in range(len(large))])
        longest = np.mean([points(source.longer).mean() for source in large])
        if gained.mean(axis=0).max() <= longest:
            return length_alone(sources)
        return choices[within_one_error(gained)](sources)

    return weigh


def length_alone(sources: Sequence[Judged]) -> np.ndarray:
    """Return weight on one check alone, which prefers the longer of two answers."""
    from svr_async.judges.rules.registry import grid_rubrics

    weight = np.zeros(sources[0].z.shape[1])
    weight[[rubric.check for rubric in grid_rubrics()].index(Check.of("min_characters", n=4000))] = 1.0
    return weight


def by_prompts(sources: Sequence[Judged]) -> list[Judged]:
    """Return the pairs of few sources in `FOLDS` parts that share no prompt."""
    whole = joined(sources)
    part = np.random.default_rng(0).permutation(int(whole.prompt.max()) + 1)[whole.prompt] % FOLDS
    return [whole.rows(part == number) for number in np.unique(part)]


def within_one_error(gained: np.ndarray) -> int:
    """Return the last column of accuracies (source, choice) that is within a standard error of the best column."""
    best = int(gained.mean(axis=0).argmax())
    below = gained[:, [best]] - gained
    error = below.std(axis=0, ddof=1) / np.sqrt(len(gained))
    return int(np.flatnonzero(below.mean(axis=0) <= error).max())


def _left_out(choices: Sequence[Weigh], sources: Sequence[Judged], place: int) -> list[float]:
    """Return the accuracy of each choice, learned on the other sources, on one source."""
    asked = sources[place]
    others = [without_prompts_of(other, asked) for other in sources if other is not asked]
    weights = np.array([weigh(others) for weigh in choices])
    return [float(points(margin).mean()) for margin in (asked.z @ weights.T).T]


def enough(sources: Sequence[Judged]) -> list[Judged]:
    """Return the sources with enough pairs to say something on their own; all, where none has."""
    return [source for source in sources if len(source.z) >= ENOUGH] or [s for s in sources if len(s.z)]


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def ridge(penalty: float, *, doubt: float = 0.0, by_pair: bool = False, spare_length: bool = False) -> Weigh:
    """Return weights >= 0 under a squared loss in which every source counts the same (or, `by_pair`, every pair).

    The penalty of check j is penalty · (1 + doubt · between_j / mean between): a check about which the sources disagree
    is trusted less. `spare_length` leaves the length checks out of the penalty but for a hundredth.
    """

    def weigh(sources: Sequence[Judged]) -> np.ndarray:
        large = enough(sources)
        parts = [moments(source) for source in large]
        sizes = np.array([len(source.z) if by_pair else 1 for source in large], float)
        factor = 1 + doubt * _disagreement(parts)
        if spare_length:
            factor[_length_checks()] *= 0.01
        return solve(*pooled(parts, sizes / sizes.sum()), penalty * factor)

    return weigh


def _disagreement(parts: Sequence[Moments]) -> np.ndarray:
    """Return the variance of each check's effect between sources, mean 1 over checks; 0 for fewer than 3 sources."""
    if len(parts) <= FEW:
        return np.zeros(len(parts[0].mean))
    between = random_effects(parts).between
    return between / max(float(between.mean()), np.finfo(float).tiny)


def _length_checks() -> np.ndarray:
    from svr_async.judges.rules.registry import grid_rubrics

    return np.array([rubric.check is not None and rubric.check.name in LENGTH for rubric in grid_rubrics()])


def sparse(l1: float) -> Weigh:
    """Return few weights >= 0: an L1 penalty, every source counting the same."""

    def weigh(sources: Sequence[Judged]) -> np.ndarray:
        parts = [moments(source) for source in enough(sources)]
        mean, gram = pooled(parts, np.full(len(parts), 1 / len(parts)))
        return solve(mean, gram, np.full(len(mean), 0.01), l1=l1)

    return weigh


def agreeing(share: float) -> Weigh:
    """Return the mean z of each check over sources, where at least this share of the sources has its sign."""

    def weigh(sources: Sequence[Judged]) -> np.ndarray:
        means = np.array([moments(source).mean for source in enough(sources)])
        mean = means.mean(axis=0)
        return np.where((np.sign(means) == np.sign(mean)).mean(axis=0) >= share, np.maximum(0, mean), 0.0)

    return weigh


def shrunken(sources: Sequence[Judged]) -> np.ndarray:
    """Return each check's common effect, shrunken by how uncertain it is for a source not seen yet."""
    found = random_effects([moments(source) for source in enough(sources)])
    sure = found.common**2 / (found.common**2 + found.variance + found.between)
    return np.maximum(0, found.common) * sure


def worst_first(penalty: float, pace: float = 20.0) -> Weigh:
    """Return the mean of weights fitted while sources that fall behind the longest answer count more and more.

    Source: group DRO, Sagawa et al. 2020 (arXiv 1911.08731), on what a source loses against the longest answer; half of
    the weight stays equal.
    """

    def weigh(sources: Sequence[Judged]) -> np.ndarray:
        large = enough(sources)
        parts = [moments(source) for source in large]
        longest = np.array([points(source.longer).mean() for source in large])
        share = np.full(len(large), 1 / len(large))
        found = []
        for _ in range(ROUNDS):
            mean, gram = pooled(parts, share)
            found.append(solve(mean, gram, np.full(len(mean), penalty)))
            behind = longest - [points(source.z @ found[-1]).mean() for source in large]
            tilted = np.exp(pace * behind)
            share = 0.5 * tilted / tilted.sum() + 0.5 / len(large)
        return np.mean(found, axis=0)

    return weigh


def few(weigh: Weigh, count: int) -> Weigh:
    """Return the weights of another way of weighing, but only the `count` that move margins most."""

    def fewer(sources: Sequence[Judged]) -> np.ndarray:
        weight = weigh(sources)
        spread = np.sqrt(np.mean([moments(source).gram.diagonal() for source in enough(sources)], axis=0))
        last = np.argsort(-weight * spread, kind="stable")[count:]
        weight[last] = 0.0
        return weight

    return fewer


def by_family(weigh: Weigh) -> Weigh:
    """Return another way of weighing that sees the subsets of a set as one source."""

    def joining(sources: Sequence[Judged]) -> np.ndarray:
        families = dict.fromkeys(source.source.family for source in sources)
        return weigh([joined([one for one in sources if one.source.family == family]) for family in families])

    return joining


def regression(sources: Sequence[Judged]) -> np.ndarray:
    """Return weights of any sign by ridge logistic regression on all pairs; penalty cross-validated by prompts."""
    prompt = np.concatenate([source.prompt for source in sources])
    _, numbered = np.unique(prompt, return_inverse=True)
    return logistic(np.concatenate([source.z for source in sources]), numbered)


# ── all ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

COMMON = cautious([ridge(penalty, doubt=1.0) for penalty in PENALTIES])
LEARNERS: Mapping[str, Learner] = {
    "longest answer": lambda _: lambda judged: judged.longer,
    "general checks": lambda _: lambda judged: judged.general,
    "logistic regression, any sign": weighing(regression),
    "one weight >= 0, every pair the same": weighing(cautious([ridge(p, by_pair=True) for p in PENALTIES])),
    "one weight >= 0, every source the same": weighing(cautious([ridge(p) for p in PENALTIES])),
    "the same, doubt where sources disagree": weighing(COMMON),
    "doubt, or length alone": weighing(guarded([ridge(p, doubt=1.0) for p in PENALTIES])),
    "the same, subsets as one source": weighing(by_family(COMMON)),
    "the same, the best penalty": weighing(cautious([ridge(p, doubt=1.0) for p in PENALTIES], bold=True)),
    "the same, length spared": weighing(cautious([ridge(p, doubt=1.0, spare_length=True) for p in PENALTIES])),
    "few by L1, every source the same": weighing(cautious([sparse(l1) for l1 in SPARSE])),
    "mean z where sources agree in sign": weighing(cautious([agreeing(share) for share in AGREEMENT])),
    "random effects, shrunken": weighing(shrunken),
    "worst source first": weighing(cautious([worst_first(p) for p in (0.3, 3.0)])),
    "the default fit": default_fit,
    "doubt, the 64 largest": weighing(few(COMMON, 64)),
    "doubt, the 128 largest": weighing(few(COMMON, 128)),
}
