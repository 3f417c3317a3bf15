"""Stages on disk: what a stage computed, kept with a digest of what it was computed from.

A stage is a pure function of its inputs. When a run is started again, a stage whose inputs have the same digest is read
back instead of computed; one that was cut off left nothing behind, since its file appears whole or not at all. Every
byte is under a checksum, so a file that was damaged is refused rather than read as something else.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import require_coverage
from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Check, Rubric
from svr_async.core.validation import fits, misfit
from svr_async.core.verdict import Outcome
from svr_async.errors import ArtefactError
from svr_async.fit.choices import Choice, choice_from_json
from svr_async.fit.forward import selector_of
from svr_async.fit.history import EpochRecord, FitResult, record_from_json
from svr_async.training.bank.merge import Candidate
from svr_async.version import __version__

Outcomes = Mapping[str, Mapping[str, int]]  # how many questions of each stage had which outcome


def unanswered(outcomes: Mapping[str, int]) -> int:
    """Return how many questions of a stage have no answer."""
    return sum(count for outcome, count in outcomes.items() if outcome != Outcome.SCORED)


def coverage_counts(outcomes: Outcomes) -> tuple[int, int]:
    """Return how many questions of all stages have no answer, and how many there were."""
    return sum(map(unanswered, outcomes.values())), sum(sum(counts.values()) for counts in outcomes.values())


def require_answers(outcomes: Outcomes, least: float, failures: Path, *, before: str = "") -> None:
    """Raise CoverageError where too few questions got an answer; `before` is to be done before they are asked again."""
    missing, total = coverage_counts(outcomes)
    hint = f"{failures} says why; {before}--retry-errors asks again, --min-coverage accepts it"
    require_coverage(missing, total, least, lack="questions have no answer", hint=hint)


def unanswered_lines(outcomes: Outcomes) -> list[str]:
    """Say of each stage with questions that have no answer how many, of how many, and why."""
    return [_line(stage, counts) for stage, counts in outcomes.items() if unanswered(counts)]


def _line(stage: str, counts: Mapping[str, int]) -> str:
    why = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()) if name != Outcome.SCORED)
    return f"{stage}: {unanswered(counts):,} of {sum(counts.values()):,} questions have no answer ({why})"


Arrays = Mapping[str, NDArray[Any]]
T = TypeVar("T")
FORMAT = 2
OUTCOMES = "outcomes"  # of a stage's questions, among its values
HEAD = {
    "format": int, "version": str, "digest": str, "marks": list[str], "arrays": str, "values": dict,
}  # fmt: skip
REMOVE = "remove that file; the stage is computed again, without a call where the cache has the replies"


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
    """The folder of a training run's stages.

    `marks` are the fingerprints of the systems that answered; they are kept with each stage and read back with it, so
    that a bank says who judged for it even where no call was needed any more. `outcomes` are those of the questions of
    each stage that was read or kept. With `retry` a stage with questions that have no answer is computed again.
    """

    folder: Path
    marks: set[str] = field(default_factory=set)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    retry: bool = False

    def load(self, name: str, digest: str, read: Callable[[Any, Arrays], T]) -> T | None:
        """Return `read(values, arrays)` of a stage, or None where it was not computed from these inputs.

        A stage that another version of this package wrote is computed again too. ArtefactError where a file is damaged.
        """
        path = self.folder / f"{name}.json"
        head = _read_head(path) if path.exists() else None
        if head is None or (head["format"], head["version"], head["digest"]) != (FORMAT, __version__, digest):
            return None
        if self.retry and unanswered(head["values"].get(OUTCOMES, {})):
            return None
        arrays = _read_arrays(path.with_suffix(".npz"), head["arrays"]) if head["arrays"] else {}
        try:
            found = read(head["values"], arrays)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = f"{type(error).__name__} {' '.join(str(error).split())[:120]}"
            raise ArtefactError(f"the stage {path} does not hold what it should: {what}", hint=REMOVE) from error
        self.marks.update(head["marks"])
        self._note(name, head["values"])
        return found

    def save(self, name: str, digest: str, values: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Keep a stage; the arrays first, so that the head never speaks of arrays that are not there."""
        blob = _write_arrays(arrays) if arrays else b""
        path = self.folder / f"{name}.json"
        if blob:
            write_atomic(path.with_suffix(".npz"), blob)
        head = {"format": FORMAT, "version": __version__, "digest": digest, "marks": sorted(self.marks)}
        write_atomic(path, _sealed({**head, "arrays": _sha256(blob) if blob else "", "values": dict(values)}))
        self._note(name, values)

    def _note(self, name: str, values: Mapping[str, Any]) -> None:
        if values.get(OUTCOMES):
            self.outcomes[name] = dict(values[OUTCOMES])


def _sealed(head: Mapping[str, Any]) -> bytes:
    """Return a head as JSON with its checksum in front; the same head gives the same bytes."""
    body = orjson.dumps(head, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps({"sha256": _sha256(body), "stage": orjson.Fragment(body)})


def _is_sealed(data: bytes, stage: Mapping[str, Any]) -> bool:
    try:
        return data == _sealed(stage)
    except TypeError:  # nested deeper than is ever written
        return False


def _read_head(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"the stage {path} cannot be read: {reason(error)}", hint=REMOVE) from error
    try:
        held = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ArtefactError(f"the stage {path} is damaged: it is not JSON ({error})", hint=REMOVE) from error
    stage = held.get("stage") if isinstance(held, dict) else None
    if not isinstance(stage, dict) or not _is_sealed(data, stage):
        raise ArtefactError(f"the stage {path} is damaged: it does not match its checksum", hint=REMOVE)
    if not all(fits(stage.get(name), kind) for name, kind in HEAD.items()) or not _counts_fit(stage["values"]):
        raise ArtefactError(f"the stage {path} is damaged: its head is none", hint=REMOVE)
    return stage


def _counts_fit(values: Mapping[str, Any]) -> bool:
    return fits(values.get(OUTCOMES) or {}, Mapping[str, int])


def _write_arrays(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()


def _read_arrays(path: Path, sha256: str) -> dict[str, NDArray[Any]]:
    hint = f"remove {path.with_suffix('.json')} and that file; the stage is computed again"
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"the arrays {path} of a stage cannot be read: {reason(error)}", hint=hint) from error
    if _sha256(blob) != sha256:
        raise ArtefactError(f"the arrays {path} of a stage are damaged: they do not match their checksum", hint=hint)
    try:
        with warnings.catch_warnings(action="ignore"), np.load(io.BytesIO(blob), allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
    except Exception as error:  # of zipfile, zlib, NumPy's headers and the parser that it reads them with
        raise ArtefactError(
            f"the arrays {path} of a stage cannot be read: {type(error).__name__}", hint=hint
        ) from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def rubric_to_json(rubric: Rubric) -> dict[str, Any]:
    """Return a rubric as plain values."""
    value = {name: getattr(rubric, name) for name in ("text", "facet", "importance", "grounding")}
    return value if rubric.check is None else {**value, "check": rubric.check.to_json()}


def rubric_from_json(value: Mapping[str, Any]) -> Rubric:
    """Read what `rubric_to_json` wrote."""
    check = value.get("check")
    texts = {name: value.get(name, "") for name in ("facet", "importance", "grounding")}
    return Rubric(text=value["text"], check=None if check is None else Check.from_json(check), **texts)


def candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    """Return a candidate as plain values."""
    return {
        "rubric": rubric_to_json(candidate.rubric),
        "sources": list(candidate.source_pair_ids),
        "count": candidate.observed_count,
        "aliases": list(candidate.aliases),
    }


def candidate_from_json(value: Mapping[str, Any]) -> Candidate:
    """Read what `candidate_to_json` wrote; KeyError, TypeError, ValueError or AttributeError for anything else."""
    found = Candidate(
        rubric=rubric_from_json(value["rubric"]),
        source_pair_ids=tuple(value["sources"]),
        observed_count=value["count"],
        aliases=tuple(value["aliases"]),
    )
    if wrong := misfit(found):
        raise TypeError(wrong)
    return found


def choice_from_values(value: Mapping[str, Any] | None) -> Choice | None:
    """Read what is kept of a fit's choice, which may have made none; KeyError or TypeError for anything else."""
    found = None if value is None else choice_from_json(value)
    if found is not None and (wrong := misfit(found)):
        raise TypeError(wrong)
    return found


def pair_to_json(pair: PreferencePair) -> dict[str, Any]:
    """Return what a stage needs of a pair: id, prompt, responses and their order."""
    prompt = [{"role": turn.role, "content": turn.content} for turn in pair.prompt]
    texts = {"id": pair.id, "chosen": pair.chosen, "rejected": pair.rejected, "chosen_first": pair.chosen_first}
    return {"prompt": prompt, **texts}


def ledger_rows(
    asked: Sequence[Sequence[str]], found: Sequence[Mapping[str, float]]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return judged rows as one array of z in the order asked, NaN where there was no verdict."""
    z = [row.get(rubric_id, np.nan) for rubrics, row in zip(asked, found, strict=True) for rubric_id in rubrics]
    return {"entries": len(z)}, {"z": np.array(z, dtype=np.float32)}


PLAIN = ("best_epoch", "dev_accuracy", "dev_loss", "device")


def kept_fit(
    stages: Stages,
    name: str,
    inputs: tuple[Any, ...],
    run: Callable[..., FitResult],
    on_epoch: Callable[[EpochRecord], None],
) -> FitResult:
    """Return the result of `run`, or the one that is on disk for the same `inputs` (all that the result depends on)."""
    digest = digest_of(*inputs)
    result = stages.load(name, digest, _result)
    if result is None:
        result = run(on_epoch=on_epoch)
        stages.save(name, digest, _values(result), result.selector.tensors())
    return result


def _values(result: FitResult) -> dict[str, Any]:
    plain = {name: getattr(result, name) for name in PLAIN}
    history = [record.as_json() for record in result.history]
    choice = None if result.choice is None else result.choice.as_json()
    return {
        **plain,
        "kind": result.selector.kind,
        "warnings": list(result.warnings),
        "history": history,
        "choice": choice,
    }


def _result(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FitResult:
    found = FitResult(
        selector=selector_of(values["kind"], arrays),
        history=tuple(record_from_json(record) for record in values["history"]),
        warnings=tuple(values["warnings"]),
        choice=choice_from_values(values["choice"]),
        **{name: values[name] for name in PLAIN},
    )
    if wrong := misfit(found):
        raise TypeError(wrong)
    return found
