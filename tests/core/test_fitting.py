"""Records read from files: a value of the wrong type is named; every allowed value passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from svr_async.core.validation import coerce_fields, type_error
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.core.table import Parts


@dataclass(frozen=True, kw_only=True)
class Record:
    """One field of each kind."""

    text: str = ""
    count: int = 1
    share: float = 0.5
    on: bool = True
    maybe: str | None = None
    texts: tuple[str, ...] = ("a",)
    two: tuple[int, str] = (1, "b")
    rule: Literal["mean", "majority"] = "mean"
    table: Mapping[str, int] = field(default_factory=dict)
    anything: Any = None
    untold: Parts | None = None


@pytest.mark.parametrize(
    "values",
    [
        {"text": 1}, {"count": 1.5}, {"count": True}, {"share": "0.5"}, {"on": 1}, {"maybe": 3}, {"texts": ("a", 1)},
        {"texts": ["a"]}, {"two": (1,)}, {"rule": ["mean"]}, {"table": {"a": "b"}}, {"table": [1]},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(values: dict[str, Any]) -> None:
    """The field, and its value in short."""
    (name,) = values
    assert type_error(Record(**values)).startswith(f"{name} is ")


@dataclass(frozen=True)
class Settings:
    """What a program fills in by hand."""

    data: Path | None = None
    limit: str | None = None
    domains: tuple[str, ...] = ()
    sample: bool = False
    top_k: int | None = None

    def __post_init__(self) -> None:
        coerce_fields(self)


def test_settings_take_what_is_meant() -> None:
    """A path as a text, a range as a number, a list for a tuple; anything else is refused with its field."""
    assert Settings("a.jsonl", 20, ["x"]) == Settings(Path("a.jsonl"), "20", ("x",))  # type: ignore[arg-type]
    for name, value in (("data", 3), ("limit", True), ("domains", "x"), ("sample", "yes"), ("top_k", "6")):
        with pytest.raises(UsageError, match=f"{name} cannot be {value!r}"):
            Settings(**{name: value})  # type: ignore[arg-type]
