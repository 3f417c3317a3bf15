"""The public engine: a judge by name, open for the length of a block."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig import name_judge, serving

from svr_async import Engine
from svr_async.core.pair import Presentation, user_prompt
from svr_async.errors import BudgetError, ConfigError, UsageError


def in_folder(folder: Path) -> list[Path]:
    """Return what lies in a folder."""
    return list(folder.iterdir())


async def test_nothing_is_opened_before_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making an engine reads no profile and makes no folder, even for a judge that does not exist."""
    monkeypatch.chdir(tmp_path)
    engine = Engine("no-such-judge")
    assert in_folder(tmp_path) == []
    for ask in (lambda: engine.judge, lambda: engine.label, lambda: engine.concurrency, engine.stats):
        with pytest.raises(UsageError, match="is not open"):
            ask()
    with pytest.raises(ConfigError, match="no-such-judge"):
        await engine.__aenter__()


async def test_the_rules_judge_sends_nothing_and_says_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no cache and no stats, its label says that no model decided; a nested block is refused."""
    monkeypatch.chdir(tmp_path)
    async with Engine("rules") as engine:
        assert "no model" in engine.label
        assert (engine.stats(), engine.concurrency >= 1, engine.judge.name) == (None, True, "rules")
        with pytest.raises(UsageError, match="open already"):
            await engine.__aenter__()
    assert in_folder(tmp_path) == []
    with pytest.raises(UsageError, match="is not open"):
        _ = engine.judge
    async with engine:  # one after the other is fine
        assert engine.judge.name == "rules"


async def test_an_endpoint_is_opened_with_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrency and caps hold, replies are kept in the cache, and the label tells a simulated endpoint."""
    monkeypatch.chdir(tmp_path)
    shown = Presentation(pair_id="p", prompt=user_prompt("q"), response_a="a", response_b="b")
    with serving() as server:
        name_judge(tmp_path, server.base_url)
        for calls in (1, 1):  # the second block finds the reply in the cache
            async with Engine("sim", cache=tmp_path / "cache", concurrency=3, max_calls=1) as engine:
                assert engine.concurrency == 3
                assert (await engine.judge.prefer(shown)).value is not None
                assert engine.label == "sim (SIMULATED endpoint)"
                assert server.stats()["calls"] == calls
        async with Engine("sim", cache=tmp_path / "other", max_calls=0) as engine:
            with pytest.raises(BudgetError):
                await engine.judge.prefer(shown)
        async with Engine("gpt-oss-120b", base_url=server.base_url, cache=tmp_path / "third") as engine:
            assert (await engine.judge.prefer(shown)).value is not None
