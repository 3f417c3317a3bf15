"""What is written beside the data of a drawn world: what was drawn, and what knowing the truth gives."""

from __future__ import annotations

from typing import Any

from svr_async.simulation.calibration import Calibration
from svr_async.simulation.family import DrawnConfig, in_words

PROPERTIES = "properties.json"


def properties_of(config: DrawnConfig, n_train: int, found: Calibration, knowable: float) -> dict[str, Any]:
    """Return the drawn properties, and the share of the test pairs that each way of deciding gets right."""
    return {
        "simulated": True,
        "draw": config.draw,
        "properties": config.properties(),
        "train_pairs": n_train,
        "test_pairs": found.n,
        "judge": found.model,
        "accuracy": {
            "direct": found.direct,
            "self_written": found.self_written,
            "human": found.human,
            "one_wording": found.human_true_weights,
            "all_wordings": found.all_wordings,
            "longest": found.longest,
            "knowable": knowable,
        },
    }


def drawn_note(config: DrawnConfig, n_train: int, found: Calibration, knowable: float) -> str:
    """Return the README of a written draw."""
    flags = f"--draw {config.draw}"
    return f"""SIMULATED DATA. Written by `svr sim {flags}`; no person and no language model wrote it.

train.jsonl        {n_train} preference pairs: id, prompt, chosen, rejected, domain (the planted prompt type), source
rubricbench.jsonl  {found.n} pairs in RubricBench's schema and domain proportions; label 0 means response A; the domains
                   have nothing to do with the types of the prompts
properties.json    what was drawn and the figures below, to be read by programs

Every property of this world was drawn from the number {config.draw}. Of the training labels {config.label_noise:.0%}
are wrong on purpose, of the test labels none. Judge it with the endpoint of the same draw, `svr sim {flags}`, and
label every result on it as simulated.

What was drawn:
{in_words(config)}

What the simulated {found.model} scores on rubricbench.jsonl, one pass, order by hash:
  direct verdict                                     {found.direct:6.1%}
  rubrics it writes itself                           {found.self_written:6.1%}
  the human rubrics, equal                           {found.human:6.1%}
  all criteria, true weights, one wording            {found.human_true_weights:6.1%}
  all criteria, true weights, all wordings           {found.all_wordings:6.1%}
  the weights that the words of the prompts can tell {knowable:6.1%}
  the longer response                                {found.longest:6.1%}
"""
