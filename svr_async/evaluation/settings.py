"""Settings of an evaluation: judges, method, pairs, limits, and where the run is written."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from svr_async.adapters import ADAPTERS
from svr_async.core.validation import misfit_of, settle
from svr_async.engine.money import Price
from svr_async.errors import UsageError
from svr_async.evaluation.plan import OrderPolicy
from svr_async.judges.limits import WHOLE, JudgeLimits
from svr_async.judges.templates import PAPER
from svr_async.scoring.jury import JuryRule

R = TypeVar("R")
PRESETS = ("default", "paper")
UNTOLD = {
    "share",
    "ray",
    "failures",
    "force",
}  # settings that a manifest leaves out, since no result depends on them


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """An evaluation: all but the benchmark has the default of `svr eval`, whose flags have the same names.

    `judge` has no default: one must be named, or a `jury`, unless the method asks nobody.
    `bank` is a folder, or hf:user/name[@revision]; `jury` is J1,J2,… in the place of `judge`; `limit` is N or A-B;
    `benchmark` is one of `svr data ls`, or a file of pairs as `data` is. `data` may be
    `-` or `hf:org/name[@revision][:split]`; `columns` and `label_map` say how it is read (docs/data.md).
    `option` are NAME=VALUE of the method. `salt` is what orders and audits are drawn from; `tie_credit` is 0 or 0.5.
    With the preset `paper` the prompts are in the paper's layout, unless `limits` names others.
    With `audit_below` both orders are asked for where the first margin is smaller. Without `out` the run folder is
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
    resume: bool = True
    min_coverage: float = 1.0

    def __post_init__(self) -> None:
        settle(self)
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

    def told(self) -> dict[str, Any]:
        """Return what a run's manifest says of its settings; the share where it is not the whole run."""
        untold = UNTOLD - {"share"} if self.limits.share != WHOLE else UNTOLD
        return {name: value for name, value in to_plain(self).items() if name not in untold}


def _is_data(source: str) -> bool:
    """Whether a text names a file, a folder, standard input or a data set of the hub, not a benchmark."""
    return source == "-" or source.startswith("hf:") or "/" in source or "." in source or Path(source).exists()


def to_plain(settings: EvalSettings) -> dict[str, Any]:
    """Return settings as values that JSON has, those of the limits among the others."""
    values = asdict(settings)
    return {name: str(one) if isinstance(one, Path) else one for name, one in (values | values.pop("limits")).items()}


def from_plain(values: Mapping[str, Any]) -> EvalSettings:
    """Read what `to_plain` returned, or a manifest; names that are not known are left alone. TypeError, UsageError."""
    return _record(EvalSettings, {**values, "limits": _record(JudgeLimits, values)})


def _record(kind: type[R], values: Mapping[str, Any]) -> R:
    kinds = typing.get_type_hints(kind)
    known = {one.name for one in fields(kind)} & values.keys()  # type: ignore[arg-type]  # both kinds are dataclasses
    typed = {name: _typed(values[name], kinds[name]) for name in known}
    if wrong := misfit_of(kind, typed):
        raise TypeError(wrong)
    return kind(**typed)


def _typed(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if isinstance(kind, types.UnionType):
        kinds = typing.get_args(kind)
        kind = str if str in kinds else next(one for one in kinds if one is not type(None))
    if kind is Path:
        return Path(value)
    if kind is Price:
        return Price(**value)
    return tuple(value) if typing.get_origin(kind) is tuple else value
