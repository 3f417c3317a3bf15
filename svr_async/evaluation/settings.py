"""Settings of an evaluation: judges, method, pairs, limits, and where the run is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from svr_async.adapters import ADAPTERS
from svr_async.core.validation import coerce_fields
from svr_async.engine.money import Price
from svr_async.errors import UsageError
from svr_async.evaluation.plan import OrderPolicy
from svr_async.judges.limits import WHOLE, JudgeLimits
from svr_async.judges.templates import PAPER
from svr_async.scoring.decision import JuryRule

PRESETS = ("default", "paper")
NOT_IN_MANIFEST = {"ray", "failures", "force"}  # no result depends on them


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """Settings of `svr eval`, named as its flags and with the same defaults.

    A `judge` or a `jury` (J1,J2,…) is required unless the method asks no judge. `bank` is a folder or
    hf:user/name[@revision]; `limit` is N or A-B. `benchmark` is one of `svr data ls`, or a file of pairs like `data`.
    `data` may be `-` or `hf:org/name@revision:split`; for `columns` and `label_map` see docs/data.md.
    `option` are NAME=VALUE of the method. `salt` seeds orders and audits; `tie_credit` is 0 or 0.5.
    The preset `paper` uses the paper's prompt layout, unless `limits` names other prompts.
    With `audit_below`, both orders are judged if the first margin is smaller. The default of `out` is
    `runs/<bench>-<method>-<judge>-<digest>`.
    """

    benchmark: str
    judge: str = ""
    jury: str | None = None
    jury_rule: str = JuryRule.MEAN.value
    escalate_to: str | None = None
    escalate_below: float | None = None
    base_url: str = ""
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    method: str | None = None
    rubrics: Path | None = None
    bank: str | None = None
    top_k: int | None = None
    rephrase: bool = False
    option: tuple[str, ...] = ()
    data: Path | None = None
    sample: bool = False
    limit: str | None = None
    domain: tuple[str, ...] = ()
    lenient: bool = False
    columns: str = ""
    label_map: str = ""
    preset: str = "default"
    order: str = OrderPolicy.HASH.value
    audit: float = 0.05
    audit_below: float | None = None
    salt: str = "svr"
    tie_credit: str = "0"
    out: Path | None = None
    min_coverage: float = 1.0

    def __post_init__(self) -> None:
        coerce_fields(self)
        if self.benchmark not in ADAPTERS and self.data is None and _is_data(self.benchmark):
            object.__setattr__(self, "data", Path(self.benchmark))
            object.__setattr__(self, "benchmark", "pairs")
        for name, known in (("order", OrderPolicy), ("jury_rule", JuryRule)):
            if (value := getattr(self, name)) not in set(known):
                raise UsageError(f"{name} is {value!r}", hint=f"one of {', '.join(known)}")
        if self.preset not in PRESETS:
            raise UsageError(f"preset is {self.preset!r}", hint=f"one of {', '.join(PRESETS)}")
        if self.preset == "paper" and self.limits.prompts is None:
            object.__setattr__(self, "limits", replace(self.limits, prompts=PAPER))
        if self.escalate_below is not None and self.escalate_to is None:
            raise UsageError("--escalate-below needs a judge to ask", hint="--escalate-to J names it")
        if self.audit_below is not None:
            object.__setattr__(self, "order", OrderPolicy.BOTH.value)

    def for_manifest(self) -> dict[str, Any]:
        """Return the settings as JSON values, those of `limits` among the others; the share unless it is the whole."""
        values = asdict(self)
        values |= values.pop("limits")
        if self.limits.share == WHOLE:
            del values["share"]
        return {n: str(v) if isinstance(v, Path) else v for n, v in values.items() if n not in NOT_IN_MANIFEST}


def _is_data(source: str) -> bool:
    """Whether a text names a file, a folder, standard input or a data set of the hub, not a benchmark."""
    return source == "-" or source.startswith("hf:") or "/" in source or "." in source or Path(source).exists()


def from_plain(values: Mapping[str, Any]) -> EvalSettings:
    """Read the settings of a manifest; unknown names are ignored. UsageError for a missing or invalid value."""
    limits, settings = (
        {one.name: values[one.name] for one in fields(kind) if one.name in values}
        for kind in (JudgeLimits, EvalSettings)
    )
    try:
        if limits.get("price") is not None:
            limits["price"] = Price(**limits["price"])
        return EvalSettings(**settings | {"limits": JudgeLimits(**limits)})
    except TypeError as error:
        raise UsageError(str(error)) from error
