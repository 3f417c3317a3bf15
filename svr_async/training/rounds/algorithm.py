"""Algorithm 1 of the paper, round by round: induce, build, judge, fit, prune, find support, probe, induce again.

Every stage is a pure function of its inputs and is kept on disk (`stages.py`), and judge calls are cached besides, so
a run that was killed goes on where it was and ends with the same bank.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from svr_async.core.pair import PreferencePair
from svr_async.errors import DegenerateFitError
from svr_async.fit.arrays import FitArrays
from svr_async.fit.choices import Choice
from svr_async.fit.forward import Selector
from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.dev_pairs import known_accuracy
from svr_async.training.bank.merge import Candidate, merge, without
from svr_async.training.bank.prune_redundant import RedundancyEdges, redundancy_edges
from svr_async.training.rounds.answers import unanswered_lines
from svr_async.training.rounds.boundary import grow
from svr_async.training.rounds.dev_choice import choose_settings, judge_missing
from svr_async.training.rounds.induction import induced
from svr_async.training.rounds.judge_calls import begin_stage
from svr_async.training.rounds.judgements import judge_pools, sources_of
from svr_async.training.rounds.problem import Sources, build_arrays
from svr_async.training.rounds.prune import support_counts
from svr_async.training.rounds.round_data import RoundData
from svr_async.training.rounds.round_fit import fit_and_prune
from svr_async.training.rounds.session import FittedRound, Growth, JudgedRound, Session

NO_RUBRIC = "ask a stronger judge, or give pairs whose responses differ in what can be said of them"


async def run_rounds(session: Session) -> list[FittedRound]:
    """Run Algorithm 1 and return every round; which one is published is the caller's to choose."""
    config, material = session.config, session.material
    growth = Growth(candidates=await induced(session, "induce-1", material.train, {}))
    rounds: list[FittedRound] = []
    for number in range(1, config.rounds + 1):
        begin_stage(session.crew)
        left = without(growth.candidates, growth.pruned)
        bank = merge(left, cutoff=config.merge_cutoff, cap=config.bank_cap, by_text_alone=config.by_text_alone)
        if not bank:
            failed = "".join(f"; {line}" for line in unanswered_lines(session.stages.outcomes))
            raise DegenerateFitError(f"no rubric was induced, so the bank is empty{failed}", hint=NO_RUBRIC)
        counts = f"{len(growth.candidates)} candidates, {len(bank)} rubrics after merging"
        session.say(f"round {number} of {config.rounds}: {counts}")
        fitted, growth_after = await one_round(session, number, bank, growth, rounds)
        rounds.append(fitted)
        accuracy = known_accuracy(fitted.dev_accuracy, len(session.material.dev))
        session.say(f"round {number}: {len(fitted.bank)} rubrics kept{accuracy}")
        if number == config.rounds:
            break
        following = await grow(session, number, fitted, growth_after)
        nothing_new = following.candidates == growth_after.candidates and following.negatives == growth.negatives
        if nothing_new and not config.all_rounds:
            session.say(f"round {number} found nothing new: training ends early")
            break
        growth = following
    return rounds


async def one_round(
    session: Session, number: int, bank: Sequence[Candidate], growth: Growth, before: Sequence[FittedRound]
) -> tuple[FittedRound, Growth]:
    """Judge the pools, fit, prune, calibrate, measure on dev, and keep what it was done with."""
    task = await _judged(session, number, bank, growth, before)
    data = task.data
    begin_stage(session.crew)
    fits = partial(session.fit_round, session, number), partial(session.calibrate, session, number)
    kept, selector, choice = fit_and_prune(data, session.config, *fits)
    survivors = tuple(bank[place] for place in kept)
    await judge_missing(session, number, survivors, selector)
    measured = task.arrays_of(session, session.material.dev)
    texts = [candidate.rubric.text for candidate in survivors]
    settings, dev_accuracy = choose_settings(session.config, selector, texts, measured.restrict_rubrics(kept), choice)
    session.keep_round(session, JudgedRound(number=number, data=data, measured=measured, negatives=growth.negatives))
    sizes = {"round": number, "bank": len(bank), "kept": len(kept)}
    mined = {"hard_negatives": len(growth.negatives), "support": len(growth.support)}
    train_margin = _mean_margin(session, selector, data.train.restrict_rubrics(kept))
    fitted = FittedRound(
        number=number,
        bank=survivors,
        selector=selector,
        settings=settings,
        dev_accuracy=dev_accuracy,
        support_counts=data.support,
        record={**sizes, **mined, **_measured(data, train_margin, dev_accuracy, settings, choice)},
    )
    gone = set(range(len(bank))) - set(kept.tolist())
    return fitted, replace(growth, pruned=growth.pruned + tuple(bank[place] for place in sorted(gone)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Task:
    """What one round fits, and how the entries of pairs on its rubrics become arrays: places by id, sources, edges."""

    data: RoundData
    index: Mapping[str, int]
    sources: Sources
    edges: RedundancyEdges

    def arrays_of(self, session: Session, pairs: Sequence[PreferencePair]) -> FitArrays:
        """Return all that was judged of pairs by now."""
        parts = (session.material.prompts, session.ledger, self.index, self.sources, self.edges)
        return build_arrays(pairs, (), *parts)


async def _judged(
    session: Session, number: int, bank: Sequence[Candidate], growth: Growth, before: Sequence[FittedRound]
) -> _Task:
    """Judge the pools of all pairs and return what was judged as arrays; hard negatives are trained on only."""
    material = session.material
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    sources = sources_of(session, bank)
    await judge_pools(session, f"judge-{number}", number, bank, index, sources, growth, before)
    edges = redundancy_edges([candidate.rubric.text for candidate in bank], session.config.redundancy_cutoff)
    parts = (material.prompts, session.ledger, index, sources, edges)
    data = RoundData(
        bank=tuple(bank),
        train=build_arrays(material.train, growth.negatives, *parts),
        dev=build_arrays(material.dev, (), *parts),
        support=support_counts(growth, session.ledger, index),
        last=number == session.config.rounds,
    )
    return _Task(data=data, index=index, sources=sources, edges=edges)


def _measured(
    data: RoundData, train_margin: float, dev_accuracy: float, settings: InferenceSettings, choice: Choice | None
) -> dict[str, Any]:
    return {
        "judged_entries": int(data.train.n_entries + data.dev.n_entries),
        "train_margin": train_margin,
        "dev_accuracy": dev_accuracy,
        "top_k": settings.top_k,
        "filler_weight": settings.filler_weight,
        **({} if choice is None else {"structure": choice.as_json()}),
    }


def _mean_margin(session: Session, selector: Selector, arrays: FitArrays) -> float:
    margins = session.margins(selector, arrays)
    return round(float(margins.mean()), 6) if len(margins) else 0.0
