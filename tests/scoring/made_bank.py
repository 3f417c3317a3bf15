"""A small made-up bank; all words are our own."""

from __future__ import annotations

from typing import Any

import numpy as np

from svr_async.core.rubric import Check, Rubric
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank

WEIGHTS = (0.75, 0.5, 0.25)


def made_rubrics() -> tuple[BankRubric, ...]:
    """Return three rubrics, one of them with a check."""
    return (
        BankRubric(
            rubric=Rubric(
                text="Keeps to the number of words that was asked for",
                facet="format",
                importance="major",
                grounding="the chosen answer is short",
                check=Check.of("max_words", n=50),
            ),
            weight=WEIGHTS[0],
            domain="chat",
            observed_count=12,
            support_count=3,
            activation_rate=0.125,
            aliases=("Stays within the word limit",),
            source_pair_ids=("p1", "p2"),
            example_prompts=("p7", "p9"),
        ),
        BankRubric(
            rubric=Rubric(text="Names the exception to the rule that it states", importance="critical"),
            weight=WEIGHTS[1],
            domain="code",
            activation_rate=0.0,
        ),
        BankRubric(
            rubric=Rubric(text="Converts each unit correctly – 5 °C ≠ 5 °F", facet="correctness"), weight=WEIGHTS[2]
        ),
    )


def made_bank(**changes: Any) -> RubricBank:
    """Return a bank of three rubrics with a fitted selector of two features."""
    rng = np.random.default_rng(7)
    fields: dict[str, Any] = {
        "rubrics": made_rubrics(),
        "selector_kind": "mlp",
        "selector": {
            "weight": np.array(WEIGHTS, np.float32),
            "hidden": rng.normal(size=(2, 4)).astype(np.float32),
            "output_bias": np.zeros(3, np.float32),
        },
        "vocabulary": {"bread": 0, "how long": 1},
        "idf": np.array([1.5, 2.25], np.float32),
        "inference": InferenceSettings(filler_weight=0.125),
        "fit_settings": {"kind": "mlp", "epochs": 8, "learning_rate": 0.002},
        "dev_metrics": {"accuracy": 0.8125, "n": 32},
        "name": "small",
        "judge": "a judge",
        "licence": "cc-by-4.0",
        "prompts_digest": "d" * 16,
        "data_digests": {"made": "e" * 64},
        "notes": ("Made for the tests.",),
    }
    return RubricBank(**{**fields, **changes})
