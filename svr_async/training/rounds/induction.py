"""Candidates: induced from pairs, screened, counted, and grouped into criteria by asking the author."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.process import cdist

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import rubric_id
from svr_async.judges.same_criterion import MOST_KNOWN, MOST_NEW, CriteriaQuestion
from svr_async.scoring.bank import BankRubric
from svr_async.training.bank.overlap import screen
from svr_async.training.rounds.session import Session
from svr_async.training.rounds.stages import ask, outcomes_of


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
            for rubric in screen(answer.value or (), pair)[0]
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
