"""Training state as plain values: candidates, pairs and judged rows, to and from JSON and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Check, Rubric
from svr_async.core.validation import type_error
from svr_async.fit.choices import Choice, choice_from_json
from svr_async.training.bank.merge import Candidate


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
    if wrong := type_error(found):
        raise TypeError(wrong)
    return found


def choice_from_values(value: Mapping[str, Any] | None) -> Choice | None:
    """Read what is kept of a fit's choice, which may have made none; KeyError or TypeError for anything else."""
    found = None if value is None else choice_from_json(value)
    if found is not None and (wrong := type_error(found)):
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
