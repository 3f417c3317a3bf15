"""What the author is asked: rubrics, which of them are one criterion, and probes at the boundary (paper `sec:adv`)."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel
from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.process import cdist

from svr_async.core.pair import PreferencePair, hashed_fraction
from svr_async.core.rubric import rubric_id
from svr_async.core.similarity import normalised
from svr_async.fit.forward import hidden_matrix
from svr_async.fit.forward import importance as importance_of
from svr_async.judges.protocol import CriteriaQuestion
from svr_async.judges.questions import MOST_KNOWN, MOST_NEW
from svr_async.judges.rules.judge import view_of
from svr_async.judges.rules.safety import is_refusal
from svr_async.scoring.bank import BankRubric
from svr_async.training.bank.overlap import screen
from svr_async.training.rounds.pools import Task, judge_tasks
from svr_async.training.rounds.session import FittedRound, Floats, HardNegative, RoundCarryover, Session
from svr_async.training.rounds.stages import ask, outcomes_of

COMPARED_CHARS = 4000
FEW = 64  # least support pairs: with fewer, a round of small data finds nothing new and training ends
_PROSE_MARKS = re.compile("[\\s.,;:!?…'\"’“”]+")


async def induced(
    session: Session, stage: str, pairs: Sequence[PreferencePair], sources: Mapping[str, str]
) -> tuple[BankRubric, ...]:
    """Induce rubrics from pairs; `sources` names the original of a hard negative."""
    judges, contrastive = session.judges, "induction" not in session.config.ablate

    async def induce() -> tuple[tuple[BankRubric, ...], Counter[str]]:
        session.say(f"inducing rubrics from {len(pairs)} pairs")
        work = partial(judges.writer.induce, contrastive=contrastive)
        answers = await ask(judges, "inducing", pairs, work, [pair.prompt for pair in pairs])
        found = [
            BankRubric(rubric=rubric, source_pair_ids=(sources.get(pair.id, pair.id),))
            for pair, answer in zip(pairs, answers, strict=True)
            for rubric in screen(answer.value or (), pair)
        ]
        return counted(found), outcomes_of(answers)

    inputs = judges.writer.name, contrastive, dict(sources), pairs
    return await session.kept(stage, tuple[BankRubric, ...], inputs, induce)


def counted(found: Sequence[BankRubric]) -> tuple[BankRubric, ...]:
    """Join candidates of the same text exactly, so that a hundred thousand proposals stay a short list."""
    groups: dict[str, list[BankRubric]] = {}
    for candidate in found:
        groups.setdefault(candidate.rubric.id, []).append(candidate)
    return tuple(
        replace(
            group[0],
            source_pair_ids=tuple(sorted({pair for one in group for pair in one.source_pair_ids})),
            observed_count=sum(one.observed_count for one in group),
            aliases=tuple(sorted({alias for one in group for alias in one.aliases})),
        )
        for group in groups.values()
    )


# ── one criterion in other words ────────────────────────────────────────────────────────────────────────────────────


async def grouped(
    session: Session, stage: str, bank: Sequence[BankRubric], known: Mapping[str, str]
) -> tuple[tuple[BankRubric, ...], Mapping[str, str]]:
    """Return the bank with the criterion of each rubric, and the criterion of every text by rubric id.

    `known` are those of the rounds before.
    """
    if session.config.same_criterion != "author":
        return tuple(bank), known
    inputs = session.judges.writer.name, [candidate.texts for candidate in bank], dict(known)
    criteria = await session.kept(stage, dict[str, str], inputs, partial(_compare, session, bank, known))
    count = Counter(criteria.values())
    session.say(f"{len(bank):,} rubrics state {len(count):,} criteria")
    labels = [criteria[candidate.rubric.id] for candidate in bank]
    marked = [
        replace(one, criterion=label if count[label] > 1 else "") for one, label in zip(bank, labels, strict=True)
    ]
    every = {rubric_id(text): criteria[one.rubric.id] for one in bank for text in one.texts}
    return tuple(marked), {**known, **every}


async def _compare(
    session: Session, bank: Sequence[BankRubric], known: Mapping[str, str]
) -> tuple[dict[str, str], Counter[str]]:
    """Return the criterion of each rubric of a bank by its id, and the outcomes of the questions.

    New rubrics are asked about in the order of the bank, `MOST_NEW` at a time, next to the first wordings of the
    criteria found so far; so each request depends on the replies before it.
    """
    judges = session.judges
    criteria: dict[str, str] = {}
    first: dict[str, str] = {}  # the text of the first rubric of each criterion
    for candidate in bank:
        before = next((known[key] for key in map(rubric_id, candidate.texts) if key in known), None)
        if before is not None:
            criteria[candidate.rubric.id] = before
            first.setdefault(before, candidate.rubric.text)
    new = [candidate.rubric for candidate in bank if candidate.rubric.id not in criteria]
    parts = [new[start : start + MOST_NEW] for start in range(0, len(new), MOST_NEW)]
    if parts:
        judges.on_begin("comparing criteria", len(parts))
    quiet = replace(judges, on_begin=lambda *_: None, on_done=lambda _: None)
    outcomes: Counter[str] = Counter()
    for number, part in enumerate(parts, 1):
        listed = _likeliest(first, [rubric.text for rubric in part])
        question = CriteriaQuestion(
            known=tuple(first[key] for key in listed), new=tuple(rubric.text for rubric in part)
        )
        answers = await ask(quiet, "comparing criteria", [question], judges.writer.same_criterion, [question])
        outcomes += outcomes_of(answers)
        judges.on_done(number)
        owner = {f"K{place}": key for place, key in enumerate(listed, 1)}
        owner |= {f"N{place}": rubric.id for place, rubric in enumerate(part, 1)}
        for place, rubric in enumerate(part, 1):
            criterion = owner[_root_of(f"N{place}", answers[0].value or {})]
            criteria[rubric.id] = criterion
            first.setdefault(criterion, rubric.text)
    return criteria, outcomes


def _root_of(label: str, same_as: Mapping[str, str | None]) -> str:
    """Return the label that a chain of "the same as" ends at; the least of those that go round in a circle."""
    path = [label]
    while (following := same_as.get(path[-1])) is not None and following not in path:
        path.append(following)
    return path[-1] if following is None else min(path[path.index(following) :])


def _likeliest(first: Mapping[str, str], wanted: Sequence[str]) -> list[str]:
    """Return the criteria to list, in order: all, or those whose words are most like those of the new rubrics."""
    keys = list(first)
    if len(keys) <= MOST_KNOWN:
        return keys
    likeness = cdist(wanted, list(first.values()), scorer=token_set_ratio).max(axis=0)
    best = (-likeness).argsort(kind="stable")[:MOST_KNOWN]
    return [keys[place] for place in sorted(best.tolist())]


# ── the boundary ──────────────────────────────────────────────────────────────────────────────────────────────────────


async def extend(session: Session, number: int, fitted: FittedRound, carryover: RoundCarryover) -> RoundCarryover:
    """Find the support pairs, probe them, pick hard negatives, and induce from both."""
    support = find_support(session, number, fitted)
    session.say(f"round {number}: {len(support)} support pairs (wrong or nearly undecided)")
    negatives = await find_negatives(session, number, fitted, support)
    session.say(f"round {number}: {len(negatives)} hard negatives (worse responses that nearly win)")
    pairs = [*support, *(negative.pair for negative in negatives)]
    sources = {negative.pair.id: negative.of for negative in negatives}
    fresh = await induced(session, f"induce-{number + 1}", pairs, sources) if pairs else ()
    known = {candidate.rubric.id for candidate in carryover.candidates}
    is_new = any(candidate.rubric.id not in known for candidate in fresh)
    held = () if session.config.is_paper else carryover.negatives
    kept = {negative.pair.id: negative for negative in (*held, *negatives)}
    return replace(
        carryover,
        candidates=counted([*carryover.candidates, *fresh]) if is_new else carryover.candidates,
        negatives=tuple(kept.values()),
        support=tuple(pair.id for pair in support),
    )


def find_support(session: Session, number: int, fitted: FittedRound) -> list[PreferencePair]:
    """Return the support pairs of this round: all with margin <= tau, or as many as `max_support` and the share allow.

    If support mining is ablated, the same number drawn by a hash replaces them, or every training pair.
    """
    config, train = session.config, session.material.train
    if "support" in config.ablate and config.is_paper:
        return list(train)
    arrays = session.arrays(session.indexed(fitted.bank), train)
    shares = None
    if not config.is_paper and fitted.selector.kind == "topics":
        shares = hidden_matrix(fitted.selector, arrays, arrays.pair_prompt)
    most = min(config.max_support, max(FEW, math.ceil(config.support_share * len(train))))
    judged = np.diff(arrays.z_indptr) > 0
    margins = session.margins(fitted.selector, arrays)
    rows = support_rows(margins, judged, margin=config.support_margin, most=most, shares=shares)
    if "support" in config.ablate:
        drawn = sorted(train, key=lambda pair: hashed_fraction("random", str(number), pair.id))
        return drawn[: len(rows)]
    return [train[row] for row in rows]


def support_rows(
    margins: Floats, judged: NDArray[np.bool_], *, margin: float, most: int, shares: Floats | None = None
) -> list[int]:
    """Return the judged rows with margin <= `margin` (paper `sec:adv`), hardest first, ties in row order.

    The paper caps them (`app:hparams`) and does not say which are taken; that the hardest come first is ours. With
    `shares` (row, cluster), each row's share in each prompt cluster, pairs of the clusters that fail most often come
    first: many of the hardest pairs are labelled the wrong way round.
    """
    near = judged & (margins <= margin)
    rows = np.flatnonzero(near)
    order = np.argsort(margins[rows], kind="stable")
    if shares is not None:
        weights = shares.astype(np.float64)
        failing = weights.T @ near / np.maximum(weights.sum(axis=0), 1e-12)
        order = np.lexsort((margins[rows], -(weights @ failing)[rows]))
    return [int(row) for row in rows[order][:most]]


async def find_negatives(
    session: Session, number: int, fitted: FittedRound, support: Sequence[PreferencePair]
) -> list[HardNegative]:
    """Return each support pair's hard negatives: of its candidates, the nearest to the boundary or all near it.

    A response of the data is one only if just the hardest is taken, as an additional triple; else it is trained on
    already. A candidate needs a verdict wherever its original has one: a missing answer is not a low margin.

    The paper takes the nearest alone. If a pair is decided wrongly, that is often the pair itself, which is no negative
    (`sec:adv`: the mean of a loss and itself is that loss).
    """
    config, ledger = session.config, session.boundary
    material, options = session.material, await _candidates(session, number, support)
    index = {candidate.rubric.id: place for place, candidate in enumerate(fitted.bank)}
    importance: dict[str, Floats] = {}
    pools: dict[str, list[int]] = {}
    tasks: list[Task] = []
    for pair in support:
        if len(options[pair.id]) == 1:
            continue
        value = importance[pair.id] = importance_of(fitted.selector, *material.features_of(material.row(pair)))
        best = np.argsort(-value, kind="stable")[: config.selection_pool]
        pools[pair.id] = sorted(best[value[best] > 0].tolist())
        for option in options[pair.id]:
            missing = sorted({*pools[pair.id]}.difference(ledger.asked(option.id, index).tolist()))
            tasks.append((option, [fitted.bank[place].rubric for place in missing]))
    await judge_tasks(session, f"negatives-{number}", tasks, ledger)

    def judged(option: PreferencePair, pair: PreferencePair) -> tuple[set[int], float]:
        """Return the rubrics of the pair's pool that an option was judged on, and its margin over them."""
        rubric, z = ledger.entries(option.id, index)
        wanted = np.isin(rubric, pools[pair.id])
        rubric, z = rubric[wanted], z[wanted]
        return set(rubric.tolist()), float((importance[pair.id][rubric] * z).sum())

    found: list[HardNegative] = []
    trained_on = {pair.id for pair in material.train}
    near = -math.inf if config.is_paper else config.support_margin
    for pair in (pair for pair in support if pair.id in pools):
        wanted, margin = judged(pair, pair)
        margins = [(pair, margin)]
        for option in options[pair.id][1:]:
            known, margin = judged(option, pair)
            if known and wanted <= known:
                margins.append((option, margin))
        lowest = min(margins, key=lambda entry: entry[1])[0]  # ties: the earlier
        taken = [option for option, margin in margins if option is lowest or margin <= near]
        found += [HardNegative(pair=option, of=pair.id) for option in taken if option.id not in trained_on]
    return found


async def _candidates(
    session: Session, number: int, support: Sequence[PreferencePair]
) -> dict[str, list[PreferencePair]]:
    """Return P(x) of each support pair as triples: the pair itself, the data's alternatives, a probe (`sec:adv`)."""
    config, others = session.config, alternatives(session.material.train)
    author, options = session.judges.writer, dict[str, list[PreferencePair]]()

    async def ask_for_probes() -> tuple[list[str | None], Counter[str]]:
        if support:
            session.say(f"writing a probe (a slightly worse response) for {len(support)} support pairs")
        answers = await ask(session.judges, "probing", support, author.probe, [pair.prompt for pair in support])
        return [answer.value for answer in answers], outcomes_of(answers)

    for pair in support:
        given = others.get(pair.id, ())
        if config.is_paper:  # a triple of this pair, with its own id
            given = [replace(other, id=f"{pair.id}~{other.id}") for other in given]
        options[pair.id] = [pair, *given]
    if "probe" not in config.ablate:
        inputs = author.name, support
        probes = await session.kept(f"probe-{number}", list[str | None], inputs, ask_for_probes)
        for pair, probe in zip(support, probes, strict=True):
            if probe is not None and usable_probe(pair, probe, same=config.same_response):
                probed = replace(pair, id=f"{pair.id}~probe{number}", rejected=probe, chosen_first=True)
                options[pair.id].append(probed)
    return options


def alternatives(pairs: Sequence[PreferencePair]) -> Mapping[str, list[PreferencePair]]:
    """Return, by pair id, the other pairs with the same prompt and chosen response: the data's own alternatives."""
    groups = defaultdict(list)
    for pair in pairs:
        groups[pair.prompt, pair.chosen].append(pair)
    return {
        pair.id: [other for other in group if other.rejected != pair.rejected]
        for group in groups.values()
        for pair in group
    }


def usable_probe(pair: PreferencePair, probe: str, *, same: float) -> bool:
    """Whether a probe is a new response: not empty, not a refusal, and less similar to the chosen one than `same`.

    Similarity is over the first 4,000 letters and digits. If those are equal, a text is another response if it differs
    further on, or in a symbol, as code does by a bracket; white space, case and punctuation of prose do not count.
    """
    if not probe.strip() or _bare(probe) == _bare(pair.chosen) or is_refusal(view_of(probe)):
        return False
    first, second = normalised(pair.chosen)[:COMPARED_CHARS], normalised(probe)[:COMPARED_CHARS]
    return first == second or float(Indel.normalized_similarity(first, second)) < same


def _bare(text: str) -> str:
    return _PROSE_MARKS.sub("", text).casefold()
