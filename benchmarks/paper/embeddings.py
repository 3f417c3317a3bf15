"""Whether embeddings of prompts group them better than their words do, on pairs that the offline `rules` judge judged.

    svr stages induce PAIRS --judge rules --out candidates.jsonl
    svr stages judge PAIRS --judge rules --candidates candidates.jsonl --out store
    python benchmarks/paper/embeddings.py texts --store store --out texts.json
    python benchmarks/paper/embed_texts.py texts.json --model FOLDER --out vectors.npz    # where the model is installed
    python benchmarks/paper/embeddings.py compare --store store --vectors vectors.npz     # the table, in Markdown

Ways to group prompts: none; by words, as the package does (`fit.grouping`); by words as embeddings are grouped, which
tells the view from the method; by embeddings (`embeddings_views.py`); the first words' and the embeddings' averaged.
Prompts are held out in turn, a fifth at a time, of the pairs that the store has for training. On the other prompts each
way learns its groups, chooses how many there are by the likelihood of what is mined from prompts left out once more
(the rule of `fit.group_count`), and has the margin loss solved with one of the four pairs of penalties of
`fit.structure`, the one that does best on a quarter of these prompts.

Measures: the log-likelihood a held-out prompt of what was mined from it, and the accuracy on held-out pairs with at
most so many rubrics a prompt. ± is a standard error over prompts, of differences prompt by prompt. Every rubric was
judged on every pair by programs: these are results of offline checks with no model as judge, none of the paper's. The
rubrics of the store were mined from all training prompts, held-out ones included, the same for every way.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from embed_texts import digest_of
from embeddings_views import NONE, Chosen, View, by_vectors, by_words, chosen, expected, latent, likelihood, one_group
from judged import say
from sources_score import gap
from svr_async.fit.grouping import likely_groups
from svr_async.fit.price import prices
from svr_async.fit.problems import Problem, batch_of, solutions, sparse_gates
from svr_async.fit.sparse_margin import Penalties

from svr_async.core.statistics import bootstrap_interval
from svr_async.fit.arrays import FitArrays
from svr_async.fit.config import DEFAULT, FitConfig
from svr_async.fit.evidence import Evidence, evidence_of, features_of, mined_of
from svr_async.fit.structure import MOST_GATES, PENALTIES, used_points
from svr_async.fit.topics import DIVERSITY
from svr_async.training.rounds.config import FREE_TOP_K
from svr_async.training.store.files import load_store, read_prompts
from svr_async.training.store.rounds import stored_round

FOLDS = 5
INNER = 4  # a quarter of the training prompts chooses the penalties
INNER_PAIRS = 4000
TOP_KS = (12, FREE_TOP_K)
PLAIN, WORDS, LATENT, VECTORS = "no groups", "words", "words, as embeddings are", "embeddings"
BOTH = "words and embeddings, averaged"
NAMES = (PLAIN, WORDS, LATENT, VECTORS, BOTH)
BESIDE = (PLAIN, WORDS, LATENT)  # what all are compared with


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """What held-out prompts gave, by way of grouping: log-likelihoods (prompt,), and points (pair,) by top k."""

    told: Mapping[str, np.ndarray]
    points: Mapping[tuple[str, int], np.ndarray]
    groups: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Split:
    """Prompts to learn from and prompts that are held out, and the pairs of each, as places."""

    inside: np.ndarray
    outside: np.ndarray
    train: np.ndarray
    test: np.ndarray


def split(pair_prompt: np.ndarray, fold: np.ndarray, held: int) -> Split:
    """Return one fold; `fold` (prompt,) is −1 where a prompt has no pair."""
    return Split(
        inside=np.flatnonzero((fold >= 0) & (fold != held)),
        outside=np.flatnonzero(fold == held),
        train=np.flatnonzero(fold[pair_prompt] != held),
        test=np.flatnonzero(fold[pair_prompt] == held),
    )


def folds_of(pair_prompt: np.ndarray, n_prompts: int, count: int, seed: int) -> np.ndarray:
    """Return the fold of each prompt (prompt,), −1 where it has no pair."""
    prompts = np.unique(pair_prompt)
    fold = np.full(n_prompts, -1)
    fold[prompts] = np.random.default_rng([seed, 21]).permutation(len(prompts)) % count
    return fold


def compared(arrays: FitArrays, vectors: np.ndarray, top_ks: Sequence[int], seed: int) -> Held:
    """Return what all ways give on prompts that are held out in turn."""
    features, mined = features_of(arrays), mined_of(arrays)
    views = {
        WORDS: by_words(features, mined, seed),
        LATENT: by_vectors(latent(features, vectors.shape[1]), mined, seed),
        VECTORS: by_vectors(lambda _: vectors, mined, seed),
    }
    fold = folds_of(arrays.pair_prompt, arrays.n_prompts, FOLDS, seed)
    told = {name: np.zeros(arrays.n_prompts) for name in NAMES}
    points = {(name, k): np.zeros(arrays.n_pairs) for name in NAMES for k in top_ks}
    groups: dict[str, list[str]] = {name: [] for name in views}
    for held in range(FOLDS):
        part = split(arrays.pair_prompt, fold, held)
        found = grouped(views, mined, part, seed)
        for name, forms in groups.items():
            forms.append(found[name].form.in_words())
            say(f"fold {held + 1}: groups by {name}: {forms[-1]}")
        for name, values in told_of(found, mined, part).items():
            told[name][part.outside] = values
        for k in top_ks:
            for name, values in points_of(arrays, found, part, k, seed).items():
                points[name, k][part.test] = values
            say(f"fold {held + 1}: top {k} decided")
    used = np.flatnonzero(fold >= 0)
    return Held(told={name: values[used] for name, values in told.items()}, points=points, groups=groups)


def grouped(views: Mapping[str, View], mined: Any, part: Split, seed: int) -> dict[str, Chosen]:
    """Return the groups of each way of its own, learned on the prompts inside."""
    found = {name: chosen(view, mined, part.inside, seed) for name, view in views.items()}
    return {PLAIN: Chosen(form=NONE, gates=one_group), **found}


def told_of(found: Mapping[str, Chosen], mined: Any, part: Split) -> dict[str, np.ndarray]:
    """Return the log-likelihood of what was mined from each prompt outside, by way."""
    rates = {name: expected(each.gates, mined, part.inside, part.outside) for name, each in found.items()}
    rates[BOTH] = (rates[WORDS] + rates[VECTORS]) / 2
    return {name: likelihood(rate, mined[part.outside]) for name, rate in rates.items()}


# ── accuracy ────────────────────────────────────────────────────────────────────────────────────────────────────────


def points_of(
    arrays: FitArrays, found: Mapping[str, Chosen], part: Split, top_k: int, seed: int
) -> dict[str, np.ndarray]:
    """Return the points of each pair outside, by way, with at most `top_k` rubrics a prompt."""
    config = replace(DEFAULT, top_ks=(top_k,), seed=seed)
    evidence = evidence_of(arrays.take_pairs(part.train).without_own(), config)
    outside = arrays.take_pairs(part.test)
    z = evidence_of(outside, config).z
    ways = {name: fitted(evidence, each, part.inside, config) for name, each in found.items()}
    scored = {name: (found[name].gates(outside.pair_prompt), effects) for name, effects in ways.items()}
    sides = [scored[WORDS], scored[VECTORS]]
    scored[BOTH] = (np.hstack([gates / 2 for gates, _ in sides]), np.vstack([effects for _, effects in sides]))
    return {name: used_points(gates, effects, z, [top_k])[0] for name, (gates, effects) in scored.items()}


def fitted(evidence: Evidence, groups: Chosen, prompts: np.ndarray, config: FitConfig) -> np.ndarray:
    """Return the effects (topic, rubric), of mean sum 1, with the penalties that do best on some of the prompts."""
    rng, top_k = np.random.default_rng([config.seed, 22]), config.top_ks[0]
    rows = np.sort(rng.permutation(len(evidence.prompt))[:INNER_PAIRS])
    fold = folds_of(evidence.prompt, evidence.features.shape[0], INNER, config.seed)[evidence.prompt[rows]]
    inside, outside = rows[fold != 0], rows[fold == 0]
    gates, z = groups.gates(evidence.prompt[outside]), evidence.z[outside]
    tried = [
        used_points(gates, evidence.criteria.spread(effects, top_k), z, [top_k]).mean()
        for effects in solved(evidence, groups, prompts, inside, PENALTIES)
    ]
    taken = PENALTIES[int(np.argmax(tried))]
    (effects,) = solved(evidence, groups, prompts, np.arange(len(evidence.prompt)), [taken])
    spread = evidence.criteria.spread(effects, top_k)
    return np.asarray(spread / max(float((groups.gates(prompts).mean(axis=0) @ spread).sum()), 1e-12))


def solved(
    evidence: Evidence,
    groups: Chosen,
    prompts: np.ndarray,
    rows: np.ndarray,
    penalties: Sequence[tuple[float, float]],
) -> list[np.ndarray]:
    """Return the effects by criterion (topic, criterion) of the margin loss on some pairs, for each of the penalties.

    Gates and prices are those of training: of its own prompts it also knows what was mined.
    """
    known = likely_groups(groups.gates(prompts), evidence.mined[prompts])
    place = np.full(evidence.features.shape[0], -1)
    place[prompts] = np.arange(len(prompts))
    gates = known[place[evidence.prompt[rows]]]
    held = sparse_gates(gates, MOST_GATES, price=prices(known, evidence.mined[prompts]))
    batch = batch_of(evidence.merged[rows], [held], alike=evidence.alike)
    problems = [
        Problem(penalties=Penalties(sparsity=own, common=common, diversity=DIVERSITY)) for own, common in penalties
    ]
    return [np.asarray(effects, np.float64) for effects in solutions(batch, problems)]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def table(runs: Sequence[Held], prompt: np.ndarray, top_ks: Sequence[int]) -> str:
    """Return a row for each way; what several runs give is averaged first."""
    told = {name: np.mean([run.told[name] for run in runs], axis=0) for name in NAMES}
    points = {key: np.mean([run.points[key] for run in runs], axis=0) for key in runs[0].points}
    above = [f"above {name}" for name in BESIDE]
    heads = ["prompts grouped by", "log-likelihood a prompt", *above]
    for k in top_ks:
        heads += [f"top {k}", *above]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name in NAMES:
        cells = [name, f"{told[name].mean():.2f}"]
        cells += [nats(told[name] - told[other]) if name != other else "" for other in BESIDE]
        for k in top_ks:
            low, high = bootstrap_interval(points[name, k], clusters=prompt.tolist())
            cells.append(f"{100 * points[name, k].mean():.1f} % [{100 * low:.1f}, {100 * high:.1f}]")
            cells += [str(gap(points[other, k], points[name, k], prompt)) if name != other else "" for other in BESIDE]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def nats(above: np.ndarray) -> str:
    """Return the mean of some differences and its standard error."""
    return f"{above.mean():+.2f} ± {above.std() / np.sqrt(len(above)):.2f}"


def compare(store: Path, vectors: Path, top_ks: Sequence[int], repeats: int) -> None:
    """Print the table of a store."""
    stored = load_store(store)
    arrays = replace(stored_round(stored).data.train, pair_source=None)
    held = vectors_of(vectors, read_prompts(stored))
    runs = [compared(arrays, held, top_ks, seed) for seed in range(repeats)]
    prompts = len(np.unique(arrays.pair_prompt))
    print(f"OFFLINE, `rules` judge: {arrays.n_pairs:,} pairs of {prompts:,} prompts, {arrays.n_rubrics} rubrics\n")
    print(table(runs, arrays.pair_prompt, top_ks))
    for name in runs[0].groups:
        print(f"\nGroups by {name}: {'; '.join(form for run in runs for form in run.groups[name])}")


def vectors_of(path: Path, texts: Sequence[str]) -> np.ndarray:
    """Return the vectors of these texts (text, dimension); SystemExit where the file is of others."""
    with np.load(path) as held:
        if str(held["digest"]) != digest_of(texts):
            raise SystemExit(f"{path} has the vectors of other texts: run `embeddings.py texts` and embed them again")
        return np.asarray(held["vector"], np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("texts", help="write the prompts of a store")
    first.add_argument("--out", type=Path, required=True, help="a JSON list, outside the repository")
    second = steps.add_parser("compare", help="hold prompts out, and print the table")
    second.add_argument("--vectors", type=Path, required=True, help="what embed_texts.py wrote (.npz)")
    second.add_argument("--top-k", type=int, nargs="+", default=list(TOP_KS), help="rubrics a prompt at most")
    second.add_argument("--repeats", type=int, default=1, help="partitions of the prompts to average over")
    for step in (first, second):
        step.add_argument("--store", type=Path, required=True, help="the store that `svr stages judge` wrote")
    args = parser.parse_args()
    if args.step == "texts":
        args.out.write_text(json.dumps(read_prompts(load_store(args.store))), "utf-8")
    else:
        compare(args.store, args.vectors, args.top_k, args.repeats)


if __name__ == "__main__":
    main()
