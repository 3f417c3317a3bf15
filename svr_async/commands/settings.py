"""Flags to the settings of the library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svr_async.adapters import get_adapter
from svr_async.commands.options import known_of, with_limits
from svr_async.errors import UsageError
from svr_async.evaluation.plan import OrderPolicy
from svr_async.evaluation.settings import EvalSettings


def eval_settings(flags: Mapping[str, Any], given: frozenset[str]) -> EvalSettings:
    """Return the settings that flags of `svr eval` name; UsageError where those that were given exclude each other."""
    _refuse_clashes(flags, given)
    if flags["adapter"]:
        flags = {**flags, "benchmark": get_adapter(flags["adapter"]).name, "data": Path(flags["benchmark"])}
    return EvalSettings(**known_of(EvalSettings, with_limits({**flags, "salt": flags["seed"]})))


def _refuse_clashes(flags: Mapping[str, Any], given: frozenset[str]) -> None:
    """Raise UsageError where flags that were given exclude each other."""
    if flags["jury"] is not None and "judge" in given:
        raise UsageError("--jury and --judge exclude each other", hint="--jury names all judges")
    if flags["adapter"] and (flags["data"] or flags["sample"]):
        raise UsageError("--format is for a SOURCE that is a file", hint="leave --data and --sample out")
    if flags["jury"] is None and "jury_rule" in given:
        raise UsageError(f"--jury-rule {flags['jury_rule']} needs a jury", hint="--jury J1,J2,J3 names one")
    if flags["audit_below"] is not None and "order" in given and flags["order"] != OrderPolicy.BOTH.value:
        raise UsageError(
            f"--audit-below and --order {flags['order']} exclude each other",
            hint="it is about the second call of --order both",
        )
