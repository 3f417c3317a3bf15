"""Prompts grouped by their words or by embeddings, the number of groups chosen by what they tell of unseen prompts.

A view learns on some prompts (rows of all) and then gives, for each form, the gates of any prompts. Embeddings are
grouped by k-means in one of these spaces, with gates softmax(−sharpness · ‖x − centre‖² / 2σ² + log share):

    plain      the embeddings themselves
    crossed    leading left singular vectors of Eᵀ M      E: centred embeddings, M: standardised marks of what was mined
    ridge λ    leading directions of what ridge regression of M on E predicts, λ in mean eigenvalues of Eᵀ E
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from svr_async.fit.group_count import COUNTS, LEAST_RATE, PARTS, PROMPTS_A_GROUP, rates_of
from svr_async.fit.grouping import LEAST_PROMPTS, Size, associate, groups_of, likely_groups, marks_of, softmax

SPACES = ("plain", "crossed", "ridge 1", "ridge 10")
SHARPNESS = (0.1, 0.5, 2.0)
WORSE = 2  # so many larger numbers in a row that tell less end the search here

Gates = Callable[[np.ndarray], np.ndarray]  # rows of prompts: (prompt, group)


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How many groups, told apart by how many directions of which space, and how sharply."""

    groups: int = 1
    directions: int = 0
    space: str = ""
    sharpness: float = 0.0

    def in_words(self) -> str:
        """Return the form in a few words."""
        if self.groups == 1:
            return "1"
        space = f", {self.space}, sharpness {self.sharpness:g}" if self.space else ""
        return f"{self.groups} ({self.directions} directions{space})" if self.directions else f"{self.groups}{space}"


NONE = Form()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class View:
    """A way to group prompts: the forms to try of a number of groups, and what is learned on rows of prompts."""

    forms: Callable[[int], list[Form]]
    learn: Callable[[np.ndarray], Callable[[Form], Gates]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """The form taken, and its gates."""

    form: Form
    gates: Gates


def by_words(features: Any, mined: Any, seed: int) -> View:
    """Return the package's own groups."""

    def learn(rows: np.ndarray) -> Callable[[Form], Gates]:
        inside, given = features[rows], mined[rows]
        association = associate(inside, given)

        def gates(form: Form) -> Gates:
            groups = groups_of(association, inside, given, Size(groups=form.groups, directions=form.directions), seed)
            return lambda asked: groups.gates(features[asked])

        return gates

    return View(forms=lambda count: [Form(groups=count, directions=n) for n in directions_of(count)], learn=learn)


def by_vectors(vectors_of: Callable[[np.ndarray], np.ndarray], mined: Any, seed: int) -> View:
    """Return groups by vectors of the prompts (prompt, dimension), which may be learned from rows of them."""

    def learn(rows: np.ndarray) -> Callable[[Form], Gates]:
        vectors = vectors_of(rows)
        mean = vectors[rows].mean(axis=0)
        given = mined[rows]
        spaces = {space: directions_in(space, vectors[rows] - mean, given) for space in SPACES}

        @cache
        def far(groups: int, space: str, directions: int) -> np.ndarray:
            found = spaces[space]
            placed = (vectors - mean) @ (found[:, :directions] if directions else found)
            return distances(placed, rows, groups, seed)

        def gates(form: Form) -> Gates:
            score = -form.sharpness * far(form.groups, form.space, form.directions)
            share = likely_groups(softmax(score[rows]), given).mean(axis=0)
            raised = softmax(score + np.log(np.maximum(share, 1 / len(rows))))
            return lambda asked: raised[asked]

        return gates

    return View(forms=vector_forms, learn=learn)


def latent(features: Any, width: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return what gives all prompts' words in the leading directions of the words of some (latent semantic analysis).

    Such vectors are linear in the words, and so are the scores behind the gates: a bank could hold them as it is.
    """

    def placed(rows: np.ndarray) -> np.ndarray:
        from sklearn.decomposition import TruncatedSVD

        inside = features[rows]
        kept = max(1, min(width, min(inside.shape) - 1))
        return np.asarray(TruncatedSVD(kept, n_iter=2, random_state=0).fit(inside).transform(features))

    return placed


def vector_forms(count: int) -> list[Form]:
    """Return what is tried of so many groups by embeddings."""
    return [
        Form(groups=count, directions=directions, space=space, sharpness=sharpness)
        for space in SPACES
        for directions in ((0,) if space == "plain" else directions_of(count))
        for sharpness in SHARPNESS
    ]


def directions_of(count: int) -> list[int]:
    """Return how many directions are tried for so many groups, as `fit.group_count` tries them."""
    return sorted({max(1, count // 2), count - 1})


def directions_in(space: str, centred: np.ndarray, given: Any) -> np.ndarray:
    """Return a space as a matrix (dimension, direction), its leading directions first."""
    width = centred.shape[1]
    marks = standardised(given)
    if space == "plain" or not marks.shape[1]:
        return np.eye(width)
    crossed = centred.T @ marks
    if space == "crossed":
        return np.asarray(np.linalg.svd(crossed, full_matrices=False)[0])
    gram = centred.T @ centred
    ridge = float(space.split()[1]) * np.trace(gram) / width
    slopes = np.linalg.solve(gram + ridge * np.eye(width), crossed)
    value, vector = np.linalg.eigh(slopes.T @ gram @ slopes)
    return np.asarray(slopes @ vector[:, np.argsort(-value, kind="stable")])


def standardised(given: Any) -> np.ndarray:
    """Return the marks of frequent rubrics (prompt, rubric), each of mean 0 and variance 1."""
    marks = marks_of(given).toarray()
    count = marks.sum(axis=0)
    kept = marks[:, (count >= LEAST_PROMPTS) & (count < len(marks))]
    return np.asarray((kept - kept.mean(axis=0)) / kept.std(axis=0))


def distances(placed: np.ndarray, rows: np.ndarray, groups: int, seed: int) -> np.ndarray:
    """Return ‖x − centre‖² / 2σ² (prompt, group) from the centres of some rows, σ² a direction's variance inside."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct prompts than groups: some stay empty
        found = KMeans(groups, n_init=2, random_state=seed).fit(placed[rows])
    variance = found.inertia_ / (len(rows) * placed.shape[1])
    return np.asarray(found.transform(placed) ** 2 / (2 * max(variance, 1e-12)))


# ── how many groups ─────────────────────────────────────────────────────────────────────────────────────────────────


def chosen(view: View, mined: Any, rows: np.ndarray, seed: int) -> Chosen:
    """Return the fewest groups that tell, within a standard error of the best, what is mined from prompts left out."""
    order = np.random.default_rng([seed, 11]).permutation(rows)
    parts = [(np.sort(np.delete(order, np.s_[held::PARTS])), np.sort(order[held::PARTS])) for held in range(PARTS)]
    learned = [view.learn(inside) for inside, _ in parts]

    def told(form: Form) -> np.ndarray:
        found = [learn(form) if form.groups > 1 else one_group for learn in learned]
        halves = zip(found, parts, strict=True)
        return np.concatenate([likelihood(expected(gates, mined, *part), mined[part[1]]) for gates, part in halves])

    tried = {NONE: told(NONE)}
    for count in COUNTS:
        best = max(tried, key=lambda form: float(tried[form].sum()))
        later = {form.groups for form in tried if form.groups > best.groups}
        if count > len(rows) // PROMPTS_A_GROUP or len(later) == WORSE:
            break
        tried |= {form: told(form) for form in view.forms(count)}
    taken = fewest(tried)
    return Chosen(form=taken, gates=view.learn(rows)(taken) if taken.groups > 1 else one_group)


def fewest(tried: dict[Form, np.ndarray]) -> Form:
    """Return the fewest groups within a standard error of the best, of the form that tells most."""
    best = max(tried.values(), key=lambda told: float(told.sum()))
    near = [form for form, told in tried.items() if (best - told).mean() <= (best - told).std() / np.sqrt(len(told))]
    least = min(form.groups for form in near)
    return max((form for form in near if form.groups == least), key=lambda form: float(tried[form].sum()))


def one_group(rows: np.ndarray) -> np.ndarray:
    """Return the gates of one group of all."""
    return np.ones((len(rows), 1))


def expected(gates: Gates, mined: Any, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """Return how often prompts outside are expected to give each rubric (prompt, rubric), from those inside."""
    given = marks_of(mined[inside])
    return np.asarray(gates(outside) @ rates_of(likely_groups(gates(inside), given), given))


def likelihood(rate: np.ndarray, given: Any) -> np.ndarray:
    """Return the log-likelihood of what was mined from each prompt (prompt,), every rubric an event of its own."""
    entries = marks_of(given).tocoo()
    told = np.log(np.maximum(rate[entries.row, entries.col], LEAST_RATE))
    return np.asarray(np.bincount(entries.row, weights=told, minlength=len(rate)) - rate.sum(axis=1))
