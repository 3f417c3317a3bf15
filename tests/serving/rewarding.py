"""What tests of hooks share: a judge for them, and where a package is missing, why they are left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from rig import in_a_thread

from svr_async.core.rubric import Check
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.rules.registry import rubric_for
from svr_async.serving.hooks.judging import HookSettings, configure
from svr_async.simulation.catalogue import CRITERIA


def needs(package: str, command: str) -> None:
    """Leave out the tests of a module whose package is not installed, and say what would run them."""
    pytest.importorskip(package, reason=f"{package} is not installed: {command} (docs/hooks.md)")


def judged_by(sim: SimServer, folder: Path, **settings: Any) -> HookSettings:
    """Let hooks judge by a simulated endpoint, with a cache of their own."""
    return configure(judge=f"{sim.base_url}#gpt-oss-120b", cache=folder / "cache", **settings)


@dataclass(frozen=True)
class Points:
    """A response with five criteria of which one is a fault: the third is not met, the fault is there."""

    judge: str
    response: str
    rubrics: list[dict[str, Any]]
    prompt: str = "Name two colours as a list."
    reward: float = 5 + 3 + 1 - 4


def points_of(kind: str, url: str) -> Points:
    """Return the criteria for the rules, each of them a check, or for a simulated judge without noise."""
    values = (5, 3, 2, 1, -4)
    if kind == "sim":
        rubrics = [{"criterion": CRITERIA[n].rubric, "points": value} for n, value in enumerate(values)]
        return Points(f"{url}#sim-perfect", " ".join(CRITERIA[n].met for n in (0, 1, 3, 4)), rubrics)
    checks = (
        Check.of("max_words", n=12), Check.of("bullet_list"), Check.of("ends_with_question"),
        Check.of("min_paragraphs", n=2), Check.of("apologises"),
    )  # fmt: skip
    rubrics = [
        {"criterion": rubric_for(check).text, "points": value} for check, value in zip(checks, values, strict=True)
    ]
    return Points("rules", "- Blue.\n- Red.\n\nI am sorry!", rubrics)


class FakeTokenizer:
    """A tokenizer whose ids are the characters' own numbers; 0 pads."""

    def decode(self, ids: Any, *, skip_special_tokens: bool) -> str:
        """Return the text of ids."""
        assert skip_special_tokens
        return "".join(map(chr, ids.tolist()))


@contextmanager
def a_server(sim: SimServer, folder: Path, **settings: Any) -> Iterator[str]:
    """Serve rewards by a simulated endpoint from a thread of this process; yields the address."""
    from svr_async.serving.server.app import RewardServer
    from svr_async.serving.server.settings import ServerSettings

    limits = JudgeLimits(cache=folder / "cache")
    server = RewardServer(f"{sim.base_url}#gpt-oss-120b", settings=ServerSettings(port=0, **settings), limits=limits)
    with in_a_thread(server):
        yield server.url
