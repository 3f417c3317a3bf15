"""From fitted rounds to a bank: how each does on the dev split in use, which is published, and what the bank says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import hashed_order, present
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, alpha_numpy, fit_linear, linear_margins
from svr_async.scoring.bank import BankHistory, BankRubric, InferenceSettings, RubricBank, TrainedOn
from svr_async.scoring.bank_card import enough
from svr_async.scoring.selection import Active, select
from svr_async.training.bank.merge import EXAMPLES, bank_rubric, main_domain
from svr_async.training.rounds.config import Publish, TrainConfig
from svr_async.training.rounds.pools import Task, judge_tasks, sign_of
from svr_async.training.rounds.session import (
    ONE_WEIGHT,
    VOTE,
    FittedRound,
    Hits,
    JudgedRound,
    PrunedFit,
    Session,
)
from svr_async.training.rounds.stages import from_cache
from svr_async.training.rounds.store import FeatureStore

Features = tuple[NDArray[np.integer], NDArray[np.float32]]
DIRECTLY = "the judge asked directly"
MOST_RATED, SAMPLE = 100_000, 5_000  # prompts: of more than that many, rates are counted on a sample
USES = {
    VOTE: "svr eval --method uniform with this bank",
    ONE_WEIGHT: "svr-fit {store} --out DIR --sweep groups=1",
    DIRECTLY: "svr eval --method direct with this judge",
}
BEFORE_EQUALS = 1e-9  # breaks ties only: far below the difference of two alphas in single precision
DIRECT = (
    "On held-out prompts the fit was no better than guessing, so with this bank the judge is asked directly. "
    "--top-k uses the rubrics anyway."
)


# ── in use on the dev split ─────────────────────────────────────────────────────────────────────────────────────────


async def judge_missing(session: Session, number: int, bank: Sequence[BankRubric], selector: Selector) -> None:
    """Judge the dev pairs on the rubrics that they would get at inference, unless they were judged."""
    config, material = session.config, session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    texts = [candidate.rubric.text for candidate in bank]
    widest = _settings(config, max(config.top_k, *config.fit.top_ks), filler_weight=1.0)
    tasks: list[Task] = []
    for pair in material.dev:
        alpha = alpha_numpy(selector, *material.features_of(material.row(pair)))
        known = set(session.ledger.asked(pair.id, index).tolist())
        wanted = [entry.index for entry in select(alpha, selector.weight, texts, widest)]
        tasks.append((pair, [bank[place].rubric for place in wanted if place not in known]))
    await judge_tasks(session, f"dev-{number}", tasks)


def in_use(judged: JudgedRound, config: TrainConfig, pruned: PrunedFit) -> FittedRound:
    """Return a fitted round with the settings for use, and the hits on dev pairs that were judged as at inference.

    A chosen structure sets top_k. If it was no better than guessing, the judge decides directly. A missing entry
    counts 0.
    """
    dev = judged.measured.restrict_rubrics(pruned.kept)
    choice = None if pruned.result is None else pruned.result.choice
    top_k, direct = (config.top_k, False) if choice is None else (choice.structure.top_k, not choice.is_proven)
    fitted = FittedRound(
        number=judged.number,
        bank=tuple(judged.bank[place] for place in pruned.kept),
        selector=pruned.selector,
        result=pruned.result,
        curves=pruned.curves,
        baselines=pruned.baselines,
        settings=_settings(config, top_k, filler_weight=config.filler_weight, direct=direct),
        dev=dev,
        dev_hits=np.zeros(dev.n_pairs),
    )
    for pair, active, entries in _used(fitted):
        fitted.dev_hits[pair] = hits_of(sum(entry.importance * entries.get(entry.index, 0.0) for entry in active))
    return fitted


def hits_of(margins: Any) -> Any:
    """Return 1 for a margin above 0, 0.5 for a tie, 0 below."""
    return (1 + np.sign(margins)) / 2


def unjudged_share(fitted: FittedRound) -> float:
    """Return the share of the entries that a round's settings need for the dev pairs and that are missing.

    After `judge_missing` only abstentions are. A store that was judged for another bank may lack many.
    """
    missing = [entry.index not in entries for _, active, entries in _used(fitted) for entry in active]
    return sum(missing) / max(1, len(missing))


def _used(fitted: FittedRound) -> Iterator[tuple[int, Sequence[Active], dict[int, Any]]]:
    """Yield each dev pair with the rubrics that it gets and its entries by rubric, pairs of a prompt together."""
    dev, selector, texts = fitted.dev, fitted.selector, [rubric.text for rubric in fitted.bank]
    weighted = dev.weighted
    row = -1
    active: Sequence[Active] = ()
    for pair in np.argsort(dev.pair_prompt, kind="stable").tolist():
        if row != (row := int(dev.pair_prompt[pair])):
            active = select(alpha_numpy(selector, *dev.features(row)), selector.weight, texts, fitted.settings)
        span = slice(int(dev.z_indptr[pair]), int(dev.z_indptr[pair + 1]))
        yield pair, active, dict(zip(dev.z_rubric[span].tolist(), weighted[span], strict=True))


def _settings(config: TrainConfig, top_k: int, **changes: Any) -> InferenceSettings:
    pool = max(config.selection_pool, top_k)
    return InferenceSettings(top_k=top_k, selection_pool=pool, **changes)


def chosen_round(rounds: Sequence[FittedRound], n_dev: int, publish: Publish = "auto") -> FittedRound:
    """Return the round whose bank is published; `n_dev` dev pairs were judged.

    `last` is Algorithm 1. `best` is by dev accuracy, the first of equals, as in the authors' public code; on a small
    dev split that is chance, and later rounds have seen more judgements. `auto`, which is ours, is the last unless an
    earlier one is better by more than a standard error.
    """
    top = max(rounds, key=lambda one: one.dev_accuracy)
    if publish != "auto":
        return top if publish == "best" else rounds[-1]
    error = (top.dev_accuracy * (1 - top.dev_accuracy) / max(1, n_dev)) ** 0.5
    return next(one for one in reversed(rounds) if one.dev_accuracy >= top.dev_accuracy - error)


# ── simpler ways to decide ──────────────────────────────────────────────────────────────────────────────────────────


async def direct_hits(session: Session) -> dict[str, Hits]:
    """Return the hits of a model's direct verdicts on the dev pairs, by name; {} unless all are in the cache."""
    judges, dev, hits = session.judges, session.material.dev, []
    with from_cache(judges.shutdown.engines):
        for pair in dev if judges.shutdown.engines else ():
            answer = await judges.judge.prefer(present(pair, hashed_order(pair.id)))
            if answer.value is None:
                break
            hits.append(hits_of(sign_of(pair) * answer.value.margin))
    return {DIRECTLY: np.array(hits)} if len(hits) == len(dev) else {}


def baseline_hits(train: FitArrays, dev: FitArrays) -> dict[str, Hits]:
    """Fit the baselines, a pair's own entries left out, and return their hits by name; {} without dev entries."""
    train, dev = train.without_own(), dev.without_own()
    if not (train.n_entries and dev.n_entries):
        return {}
    weights = {VOTE: np.ones(dev.n_rubrics), ONE_WEIGHT: fit_linear(train)}
    return {name: hits_of(linear_margins(weight, dev)) for name, weight in weights.items()}


def better_than_bank(bank: Hits, others: Mapping[str, Hits], store: str) -> str:
    """Return a sentence if another way decides the dev pairs better by more than the standard error; else "".

    The error is that of the mean difference, pair by pair. With too few dev pairs nothing is reported.
    """
    gains = {name: hits - bank for name, hits in others.items() if enough(len(bank))}
    errors = {name: float(gain.std(ddof=1)) / len(gain) ** 0.5 for name, gain in gains.items()}
    found = [(float(gain.mean()), errors[name], name) for name, gain in gains.items() if gain.mean() > errors[name]]
    if not found:
        return ""
    gain, error, name = max(found)
    accuracy = f"{100 * (float(bank.mean()) + gain):.1f} % against {100 * float(bank.mean()):.1f} %"
    how = USES[name].format(store=store)
    return f"{name} is better than the bank on {len(bank)} held-out pairs ({accuracy}, ± {100 * error:.1f}): use {how}"


# ── the bank ────────────────────────────────────────────────────────────────────────────────────────────────────────


def rated(count: int) -> NDArray[np.int64]:
    """Return the places of the training prompts on which rates are counted: all, or `SAMPLE` at even distances."""
    return np.arange(count) if count <= MOST_RATED else np.arange(SAMPLE) * count // SAMPLE


def store_bank(
    store: FeatureStore,
    fitted: FittedRound,
    config: TrainConfig,
    *,
    history: BankHistory,
    source: str = "",
    contaminated: int | None = None,
    **fields: Any,
) -> RubricBank:
    """Return the bank of a fit of a store: rubrics with weight, rate, domain and examples; `fields` of `RubricBank`.

    The `history` may have the curves of all rounds; else it gets those of this fit.
    """
    selector, header, pairs = fitted.selector, store.header, np.flatnonzero(~store.is_dev)
    ids, domains = (store.pairs[name].take(pairs).to_pylist() for name in ("pair_id", "domain"))
    first = np.sort(np.unique(store.arrays.pair_prompt[pairs], return_index=True)[1])
    first = first[rated(len(first))]
    prompts = [(ids[place], store.arrays.features(int(store.arrays.pair_prompt[pairs[place]]))) for place in first]
    n_train, n_dev = store.counts
    return RubricBank(
        rubrics=describe(fitted.bank, selector, prompts, dict(zip(ids, domains, strict=True))),
        selector_kind=selector.kind,
        selector=selector.tensors(),
        vocabulary=store.vocabulary.terms,
        idf=store.vocabulary.idf,
        inference=fitted.settings,
        fit_settings=asdict(config),
        notes=(DIRECT,) if fitted.settings.direct else (),
        judge=header.judge,
        marks=frozenset(header.marks),
        prompts_digest=header.prompts_digest,
        data_digests={"pairs": header.pairs_digest},
        history=replace(
            history,
            trained_on=TrainedOn(
                train_pairs=n_train,
                dev_pairs=n_dev,
                source=source,
                preset=config.preset,
                ablate=config.ablate,
                contaminated=contaminated,
            ),
            curves=history.curves or fitted.curves,
            chosen_round=fitted.number,
            choice=fitted.choice,
            chosen_seed=fitted.curves[-1].seed,
            **fitted.accuracies,
        ),
        **fields,
    )


def describe(
    bank: Sequence[BankRubric],
    selector: Selector,
    prompts: Sequence[tuple[str, Features]],
    domains: Mapping[str, str],
) -> tuple[BankRubric, ...]:
    """Return the rubrics with weight, mean alpha and the prompts that activate each most.

    `prompts` are (pair id, features) of the training prompts that are rated, each once. Of equals, as all prompts of a
    cluster are, those that the rubric was mined from come first, then the earlier.
    """
    total, best = np.zeros(len(bank)), np.zeros((len(bank), EXAMPLES))
    places = np.full((len(bank), EXAMPLES), -1, dtype=np.int64)
    every = np.arange(len(bank))
    mined: dict[str, list[int]] = {}
    for place, candidate in enumerate(bank):
        for pair_id in candidate.source_pair_ids:
            mined.setdefault(pair_id, []).append(place)
    for number, (pair_id, features) in enumerate(prompts):
        alpha = alpha_numpy(selector, *features).astype(np.float64)
        total += alpha
        alpha[[place for place in mined.get(pair_id, ()) if alpha[place] > 0]] += BEFORE_EQUALS
        lowest = np.where(best == best.min(axis=1, keepdims=True), places, -2).argmax(axis=1)  # of equals, the latest
        better = alpha > best[every, lowest]
        best[better, lowest[better]] = alpha[better]
        places[better, lowest[better]] = number
    rates = np.minimum(1.0, total / max(1, len(prompts)))
    order = np.lexsort((places, -best))
    return tuple(
        bank_rubric(
            candidate,
            weight=float(selector.weight[place]),
            activation_rate=float(rates[place]),
            example_prompts=tuple(prompts[int(n)][0] for n in places[place][order[place]] if n >= 0),
            domain=main_domain(candidate.source_pair_ids, domains),
        )
        for place, candidate in enumerate(bank)
    )
