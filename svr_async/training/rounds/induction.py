"""Inducing candidates from pairs: ask, screen, count; kept as a stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from svr_async.core.pair import PreferencePair
from svr_async.training.bank.leaks import screen
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.session import Session
from svr_async.training.rounds.stages import candidate_from_json, candidate_to_json, pair_to_json


async def induced(
    session: Session, stage: str, pairs: Sequence[PreferencePair], sources: Mapping[str, str]
) -> tuple[Candidate, ...]:
    """Induce rubrics from pairs; `sources` names the original of a hard negative."""
    contrastive = "induction" not in session.config.ablate
    digest = session.digest(session.crew.author.name, contrastive, dict(sources), [pair_to_json(p) for p in pairs])
    held = session.stages.load(
        stage, digest, lambda values, _: tuple(candidate_from_json(value) for value in values["candidates"])
    )
    if held is not None:
        return held
    session.say(f"inducing rubrics from {len(pairs)} pairs")
    proposals, asked = await judge_calls.induce(session.crew, pairs, contrastive=contrastive)
    refused: Counter[str] = Counter()
    found: list[Candidate] = []
    for pair, rubrics in zip(pairs, proposals, strict=True):
        screened = screen(rubrics, pair)
        refused += screened.refused
        origin = (sources.get(pair.id, pair.id),)
        found += [Candidate(rubric=rubric, source_pair_ids=origin) for rubric in screened.taken]
    candidates = counted(found)
    values = {
        "candidates": [candidate_to_json(candidate) for candidate in candidates],
        "refused": dict(refused),
        "outcomes": dict(asked.outcomes),
    }
    session.stages.save(stage, digest, values)
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
