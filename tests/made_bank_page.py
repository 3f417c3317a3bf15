"""Banks for the report's tests: a plain one, and one whose every text attacks the reader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from made_history import made_curve, made_history

from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import BankRubric, RubricBank

__all__ = ["bank", "made_curve", "made_history"]


def bank(text: str = "Keeps to the point", *, tail: str = "", rubrics: int = 30, **changes: Any) -> RubricBank:
    """Return a bank with `text` in every field that comes from outside; the same shape whatever the text."""
    words = f"{text}{tail}"
    entries = tuple(
        BankRubric(
            rubric=Rubric(text=f"{words[:400]} {n}", facet=words[:100], importance=words[:100]),
            weight=float(np.float32(4 - 0.1 * n)),
            domain=words if n % 2 else "code",
            activation_rate=0.2 / (n + 1),
            example_prompts=(f"{words}-{n}", "p2"),
        )
        for n in range(rubrics)
    )
    history = made_history()
    assert history.trained_on is not None
    history = replace(
        history,
        trained_on=replace(history.trained_on, source=words, preset=words, ablate=("probe", words), contaminated=3),
        warnings=(words,),
    )
    fields = {
        "rubrics": entries, "name": words, "judge": words, "licence": words, "prompts_digest": words,
        "data_digests": {words: words}, "notes": (words,), "fit_settings": {words: {words: words}, "ablate": [words]},
        "dev_metrics": {"accuracy": 0.66, "pairs": 100}, "history": history,
    }  # fmt: skip
    return RubricBank(**{**fields, **changes})
