"""The first stage by itself, induction, and the file of candidate rubrics that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from svr_async.core.files import read_plain, write_atomic
from svr_async.errors import ArtefactError, ConfigError, DegenerateFitError, UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.training.bank.build import bank_rubric, candidate_of
from svr_async.training.bank.merge import Candidate, merge
from svr_async.training.rounds.algorithm import NO_RUBRIC
from svr_async.training.rounds.answers import Outcomes, unanswered_lines
from svr_async.training.rounds.induction import counted, induced
from svr_async.training.rounds.session import Session
from svr_async.training.rounds.state import candidate_from_json, candidate_to_json
from svr_async.training.running.listener import Listener
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.stage import run_stage

INDUCED = "svr stages induce writes such a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Induced:
    """Candidates, near-identical ones merged, the most observed first, and what became of the questions."""

    candidates: tuple[Candidate, ...]
    outcomes: Outcomes


def induce(settings: TrainSettings, file: Path, listener: Listener | None = None) -> Induced:
    """Induce rubrics from the training pairs and write them as JSON Lines; DegenerateFitError where there is none.

    The stage is kept in `settings.out`.
    """
    candidates, outcomes = run_stage(settings, lambda run: ask_for_candidates(run.session), listener)
    if not candidates:
        why = "".join(f"; {line}" for line in unanswered_lines(outcomes))
        raise DegenerateFitError(f"no rubric was induced from {settings.pairs}{why}", hint=NO_RUBRIC)
    lines = (orjson.dumps(candidate_to_json(one), option=orjson.OPT_APPEND_NEWLINE) for one in candidates)
    write_atomic(file, b"".join(lines))
    return Induced(candidates=candidates, outcomes=outcomes)


async def ask_for_candidates(session: Session) -> tuple[Candidate, ...]:
    """Induce rubrics from the training pairs of a session, and merge near-identical ones."""
    return merge(await induced(session, "induce", session.material.train, {}))


def load_rubrics(bank: Path | None, candidates: Path | None) -> Sequence[Candidate]:
    """Return the rubrics of a bank or of a file of candidates; UsageError unless one of them is named."""
    if (bank is None) == (candidates is None):
        raise UsageError("svr stages judge needs rubrics", hint="give one of --bank DIR and --candidates FILE")
    if bank is not None:
        return [candidate_of(entry) for entry in RubricBank.load(bank).rubrics if not entry.disabled]
    assert candidates is not None
    try:
        lines = read_plain(candidates).splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {candidates}: {error.strerror}", hint=INDUCED) from error
    found = [_candidate(line, f"{candidates} line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{candidates} holds 0 rubrics", hint=INDUCED)
    return counted(found)


def _candidate(line: bytes, where: str) -> Candidate:
    """Read a line; ArtefactError, naming it, where it is no candidate or one that no bank can hold."""
    try:
        found = candidate_from_json(orjson.loads(line))
        bank_rubric(found)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtefactError(
            f"{where} is not a candidate: {why}", hint="write the file again with svr stages induce"
        ) from error
    return found
