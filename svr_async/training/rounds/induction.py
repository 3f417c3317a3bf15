"""Candidates: induced from pairs, screened, counted, and grouped into criteria by asking the author."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.process import cdist

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Rubric, rubric_id
from svr_async.judges.same_criterion import MOST_KNOWN, MOST_NEW, CriteriaQuestion
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.overlap import screen
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.session import Session
from svr_async.training.rounds.stages import candidate_from_json, candidate_to_json, pair_to_json


async def induced(
    session: Session, stage: str, pairs: Sequence[PreferencePair], sources: Mapping[str, str]
) -> tuple[Candidate, ...]:
    """Induce rubrics from pairs; `sources` names the original of a hard negative."""
    contrastive = "induction" not in session.config.ablate
    digest = session.digest(session.judges.author.name, contrastive, dict(sources), [pair_to_json(p) for p in pairs])
    held = session.stages.load(
        stage, digest, lambda values, _: tuple(candidate_from_json(value) for value in values["candidates"])
    )
    if held is not None:
        return held
    session.say(f"inducing rubrics from {len(pairs)} pairs")
    proposals, outcomes = await judge_calls.induce(session.judges, pairs, contrastive=contrastive)
    refused: Counter[str] = Counter()
    found: list[Candidate] = []
    for pair, rubrics in zip(pairs, proposals, strict=True):
        taken, reasons = screen(rubrics, pair)
        refused += reasons
        origin = (sources.get(pair.id, pair.id),)
        found += [Candidate(rubric=rubric, source_pair_ids=origin) for rubric in taken]
    candidates = counted(found)
    values = {"candidates": [candidate_to_json(one) for one in candidates], "refused": dict(refused)}
    session.stages.save(stage, digest, {**values, "outcomes": dict(outcomes)})
    return candidates


def counted(found: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Join candidates of the same text exactly, so that a hundred thousand proposals stay a short list."""
    groups: dict[str, list[Candidate]] = {}
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
    session: Session, stage: str, bank: Sequence[Candidate], known: Mapping[str, str]
) -> tuple[tuple[Candidate, ...], Mapping[str, str]]:
    """Return the bank with the criterion of each rubric, and the criterion of every text by rubric id.

    `known` are those of the rounds before. New rubrics are asked about in the order of the bank, `MOST_NEW` at a time,
    next to the first wordings of the criteria found so far; so each request depends on the replies before it.
    """
    if session.config.same_criterion != "author":
        return tuple(bank), known
    texts = [list(candidate.texts) for candidate in bank]
    digest = session.digest(session.judges.author.name, texts, dict(known))
    criteria = session.stages.load(stage, digest, lambda values, _: dict(map(_text_pair, values["criteria"].items())))
    if criteria is None:
        criteria, outcomes = await _asked(session, bank, known)
        session.stages.save(stage, digest, {"criteria": criteria, "outcomes": dict(outcomes)})
    count = Counter(criteria.values())
    session.say(f"{len(bank):,} rubrics state {len(count):,} criteria")
    labels = [criteria[candidate.rubric.id] for candidate in bank]
    marked = [
        replace(one, criterion=label if count[label] > 1 else "") for one, label in zip(bank, labels, strict=True)
    ]
    every = {rubric_id(text): criteria[one.rubric.id] for one in bank for text in one.texts}
    return tuple(marked), {**known, **every}


def _text_pair(item: tuple[str, str]) -> tuple[str, str]:
    if not isinstance(item[1], str):
        raise TypeError("a criterion is not a text")
    return item


async def _asked(
    session: Session, bank: Sequence[Candidate], known: Mapping[str, str]
) -> tuple[dict[str, str], Counter[str]]:
    """Return the criterion of each rubric of a bank by its id, and the outcomes of the questions."""
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
        session.judges.on_begin("comparing criteria", len(parts))
    quiet = replace(session.judges, on_begin=lambda *_: None, on_done=lambda _: None)
    outcomes: Counter[str] = Counter()
    for number, part in enumerate(parts, 1):
        wanted = [rubric.text for rubric in part]
        listed = _likeliest(first, wanted)
        question = CriteriaQuestion(known=tuple(first[key] for key in listed), new=tuple(wanted))
        (same_as,), outcome = await judge_calls.same_criterion(quiet, [question])
        outcomes += outcome
        session.judges.on_done(number)
        owner = {f"K{place}": key for place, key in enumerate(listed, 1)}
        owner |= {f"N{place}": rubric.id for place, rubric in enumerate(part, 1)}
        for rubric, criterion in zip(part, _joined(part, owner, same_as, first), strict=True):
            criteria[rubric.id] = criterion
            first.setdefault(criterion, rubric.text)
    return criteria, outcomes


def _joined(
    part: Sequence[Rubric], owner: Mapping[str, str], same_as: Mapping[str, str | None], first: Mapping[str, str]
) -> list[str]:
    """Return the criterion of each new rubric; criteria found before (`first`) stay apart, whatever links them."""
    leader: dict[str, str] = {}

    def lead(key: str) -> str:
        while key in leader:
            key = leader[key]
        return key

    for place, rubric in enumerate(part, 1):
        other = same_as.get(f"N{place}")
        one, two = lead(rubric.id), lead(rubric.id if other is None else owner[other])
        late, early = (one, two) if one not in first else (two, one)
        if one != two and late not in first:
            leader[late] = early
    return [lead(rubric.id) for rubric in part]


def _likeliest(first: Mapping[str, str], wanted: Sequence[str]) -> list[str]:
    """Return the criteria to list, in order: all, or those whose words are most like those of the new rubrics."""
    keys = list(first)
    if len(keys) <= MOST_KNOWN:
        return keys
    likeness = cdist(wanted, list(first.values()), scorer=token_set_ratio).max(axis=0)
    best = (-likeness).argsort(kind="stable")[:MOST_KNOWN]
    return [keys[place] for place in sorted(best.tolist())]
