"""Stages on disk: what a stage computed, stored with a digest of what it was computed from.

A stage is a pure function of its inputs. When a run is started again, a stage whose inputs have the same digest is read
back instead of computed. A stage is one file that appears whole or not at all, under a checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import require_coverage
from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Check, Rubric
from svr_async.core.validation import type_error
from svr_async.core.verdict import Outcome
from svr_async.errors import ArtefactError
from svr_async.fit.config import Choice, choice_from_json
from svr_async.fit.forward import selector_of
from svr_async.fit.history import EpochRecord, FitResult, record_from_json
from svr_async.training.bank.merge import Candidate
from svr_async.version import __version__

Outcomes = Mapping[str, Mapping[str, int]]  # how many questions of each stage had which outcome
Arrays = Mapping[str, NDArray[Any]]
OnEpoch = Callable[[EpochRecord], None]
T = TypeVar("T")
PLAIN = ("best_epoch", "dev_accuracy", "dev_loss", "device")
REMOVE = "remove that file; the stage is computed again, without a call if the cache has the replies"


class StageFile(msgspec.Struct, frozen=True):
    """A stage: its program and inputs, the marks of its judge, its values, and arrays as (dtype, shape, bytes)."""

    version: str
    digest: str
    marks: list[str]
    values: dict[str, Any]
    arrays: dict[str, tuple[str, list[int], bytes]]


def digest_of(*parts: Any) -> str:
    """Return a digest of values: texts, numbers, lists and dictionaries of them, bytes, arrays."""
    sha = hashlib.sha256()
    for part in parts:
        data = _bytes_of(part)
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.hexdigest()[:32]


def _bytes_of(part: Any) -> bytes:
    if isinstance(part, bytes):
        return part
    if isinstance(part, np.ndarray):
        return f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
    return orjson.dumps(part, option=orjson.OPT_SORT_KEYS, default=str)


@dataclass(frozen=True, slots=True)
class Stages:
    """The folder of a training's stages.

    `marks` are the fingerprints of the systems that answered; they are stored with each stage, so that a bank names its
    judge even if no call was needed any more. `outcomes` are those of the questions of each stage that was read or
    saved. With `retry` a stage with unanswered questions is computed again.
    """

    folder: Path
    marks: set[str] = field(default_factory=set)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    retry: bool = False

    def load(self, name: str, digest: str, read: Callable[[Any, Arrays], T]) -> T | None:
        """Return `read(values, arrays)` of a stage, or None if it was not computed from these inputs.

        A stage of another version of this package is computed again too. ArtefactError for a damaged file.
        """
        path = self.folder / f"{name}.stage"
        if not path.exists():
            return None
        try:
            stage = read_stage(path)
            if (stage.version, stage.digest) != (__version__, digest):
                return None
            if self.retry and unanswered(stage.values.get("outcomes", {})):
                return None
            arrays = {key: np.frombuffer(raw, kind).reshape(shape) for key, (kind, shape, raw) in stage.arrays.items()}
            found = read(stage.values, arrays)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, OSError) as error:
            why = reason(error) if isinstance(error, OSError) else f"{type(error).__name__} {str(error)[:120]}"
            raise ArtefactError(f"the stage {path} cannot be read: {why}", hint=REMOVE) from error
        self.marks.update(stage.marks)
        self._note(name, stage.values)
        return found

    def save(self, name: str, digest: str, values: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Store a stage."""
        packed = {key: (value.dtype.str, list(value.shape), value.tobytes()) for key, value in (arrays or {}).items()}
        stage = StageFile(__version__, digest, sorted(self.marks), dict(values), packed)
        data = msgspec.msgpack.encode(stage)
        write_atomic(self.folder / f"{name}.stage", _checksum(data) + data)
        self._note(name, values)

    def _note(self, name: str, values: Mapping[str, Any]) -> None:
        if values.get("outcomes"):
            self.outcomes[name] = dict(values["outcomes"])


def read_stage(path: Path) -> StageFile:
    """Read a stage; ValueError if it is damaged."""
    data = path.read_bytes()
    if data[:64] != _checksum(data[64:]):
        raise ValueError("it does not match its checksum")
    return msgspec.msgpack.decode(data[64:], type=StageFile)


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


# ── unanswered questions ────────────────────────────────────────────────────────────────────────────────────────────


def unanswered(outcomes: Mapping[str, int]) -> int:
    """Return how many questions of a stage have no answer."""
    return sum(count for outcome, count in outcomes.items() if outcome != Outcome.SCORED)


def require_answers(outcomes: Outcomes, least: float, failures: Path, *, before: str = "") -> None:
    """Raise CoverageError if too few questions got an answer; `before` has to be done before they are asked again."""
    missing, total = sum(map(unanswered, outcomes.values())), sum(sum(counts.values()) for counts in outcomes.values())
    hint = f"{failures} says why; {before}--retry-errors asks again, --min-coverage accepts it"
    require_coverage(missing, total, least, lack="questions have no answer", hint=hint)


def unanswered_lines(outcomes: Outcomes) -> list[str]:
    """Return a line for each stage with unanswered questions: how many, and why."""
    lines = []
    for stage, counts in outcomes.items():
        if missing := unanswered(counts):
            why = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if name != Outcome.SCORED)
            lines.append(f"{stage}: {missing:,} of {sum(counts.values()):,} questions have no answer ({why})")
    return lines


# ── what stages hold ────────────────────────────────────────────────────────────────────────────────────────────────


def rubric_to_json(rubric: Rubric) -> dict[str, Any]:
    """Return a rubric as plain values."""
    value = {name: getattr(rubric, name) for name in ("text", "facet", "importance", "grounding")}
    return value if rubric.check is None else {**value, "check": rubric.check.to_json()}


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as plain values."""
    value = {
        "rubric": rubric_to_json(candidate.rubric),
        "sources": list(candidate.source_pair_ids),
        "count": candidate.observed_count,
        "aliases": list(candidate.aliases),
    }
    return {**value, "criterion": candidate.criterion} if candidate.criterion else value


def candidate_from_json(value: Mapping[str, Any]) -> Candidate:
    """Read what `candidate_to_json` wrote; KeyError, TypeError, ValueError or AttributeError for anything else."""
    rubric = value["rubric"]
    check, texts = rubric.get("check"), {name: rubric.get(name, "") for name in ("facet", "importance", "grounding")}
    found = Candidate(
        rubric=Rubric(text=rubric["text"], check=None if check is None else Check.from_json(check), **texts),
        source_pair_ids=tuple(value["sources"]),
        observed_count=value["count"],
        aliases=tuple(value["aliases"]),
        criterion=value.get("criterion", ""),
    )
    if wrong := type_error(found):
        raise TypeError(wrong)
    return found


def pair_to_json(pair: PreferencePair) -> dict[str, Any]:
    """Return what a stage needs of a pair: id, prompt, responses and their order."""
    prompt = [{"role": turn.role, "content": turn.content} for turn in pair.prompt]
    texts = {"id": pair.id, "chosen": pair.chosen, "rejected": pair.rejected, "chosen_first": pair.chosen_first}
    return {"prompt": prompt, **texts}


def choice_from_values(value: Mapping[str, Any] | None) -> Choice | None:
    """Read a fit's choice of structure, if it made one."""
    return None if value is None else choice_from_json(value)


def kept_fit(
    stages: Stages, name: str, inputs: tuple[Any, ...], run: Callable[..., FitResult], on_epoch: OnEpoch
) -> FitResult:
    """Return the result of `run(on_epoch=…)`, or the one on disk for the same `inputs` (all that it depends on)."""
    digest = digest_of(*inputs)
    result = stages.load(name, digest, _fit_result)
    if result is None:
        result = run(on_epoch=on_epoch)
        values = {key: getattr(result, key) for key in PLAIN}
        values |= {"kind": result.selector.kind, "warnings": list(result.warnings)}
        values |= {"history": [record.as_json() for record in result.history]}
        values |= {"choice": None if result.choice is None else result.choice.as_json()}
        stages.save(name, digest, values, result.selector.tensors())
    return result


def _fit_result(values: Mapping[str, Any], arrays: Arrays) -> FitResult:
    return FitResult(
        selector=selector_of(values["kind"], arrays),
        history=tuple(record_from_json(record) for record in values["history"]),
        warnings=tuple(values["warnings"]),
        choice=choice_from_values(values["choice"]),
        **{name: values[name] for name in PLAIN},
    )
