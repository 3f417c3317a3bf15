"""Weights & Biases: a run with its settings, numbers, labels as tags, and the report as a file.

Where it goes is told by W&B's own variables: WANDB_API_KEY, WANDB_ENTITY, WANDB_PROJECT; WANDB_MODE=offline keeps it
in WANDB_DIR for `wandb sync`. Nothing of the machine is sent besides: no console, code, Git state or load.
"""

from __future__ import annotations

import os
from typing import Any

from svr_async.tracking.contract import PROJECT, Tracked

CONNECT_S = 30
QUIET = {
    "console": "off",
    "silent": True,
    "save_code": False,
    "disable_git": True,
    "disable_job_creation": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
}


def keep(run: Tracked) -> str:
    """Keep a run; return its address, or the folder of one that is kept offline."""
    import wandb

    found = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or PROJECT,
        name=run.name,
        job_type=run.kind,
        tags=[label[:64] for label in run.labels],  # as long as W&B takes
        notes=run.note or None,
        config=dict(run.settings),
        settings=wandb.Settings(init_timeout=CONNECT_S, **_known(wandb.Settings)),
    )
    for step, numbers in run.series:
        found.log(dict(numbers), step=step)
    found.summary.update(dict(run.metrics))
    for file in run.files:
        found.save(file, base_path=os.path.dirname(os.path.abspath(file)), policy="now")  # noqa: PTH100, PTH120
    place = found.url or os.path.dirname(found.dir)  # noqa: PTH120  (as W&B gives it)
    found.finish()
    return str(place)


def _known(settings: Any) -> dict[str, Any]:
    """Return those settings that this version of W&B has."""
    names = set(getattr(settings, "model_fields", None) or QUIET)
    return {name: value for name, value in QUIET.items() if name in names}
