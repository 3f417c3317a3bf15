"""Where the cache lies by default, and that this machine's names are one endpoint in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from rig import pairs, profile

from svr_async.core.pair import Order, present
from svr_async.engine.cache import cache_place, user_cache
from svr_async.engine.request import Question
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import load_templates


def test_there_is_one_cache_for_each_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Unless something says otherwise, it is in the user's cache folder, wherever a command runs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    assert cache_place() == JudgeLimits().cache == tmp_path / "mine" / "svr-async" / "replies"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert user_cache() == Path.home() / ".cache" / "svr-async"


def test_a_cache_in_the_working_folder_goes_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where an earlier version made one, or a project says so, replies stay there; SVR_CACHE goes over all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cache").mkdir()
    assert Path(cache_place()).is_absolute()  # a folder of that name may be anything
    (tmp_path / "cache" / ".svr").touch()
    assert cache_place() == Path("cache/replies")
    (tmp_path / "cache" / ".svr").unlink()
    (tmp_path / "cache" / "replies").mkdir()
    assert cache_place() == Path("cache/replies")
    monkeypatch.setenv("SVR_CACHE", str(tmp_path / "named"))
    assert cache_place() == tmp_path / "named"


def asked(host: str, **settings: Any) -> Question[Any]:
    """Return a question to a port of this machine by one of its names."""
    writer = QuestionWriter(profile(f"http://{host}:8000/v1", **settings), load_templates())
    return writer.direct(present(pairs(1)[0], Order.AB))


def test_this_machine_has_one_name() -> None:
    """localhost, ::1 and 127.0.0.1 are one endpoint in the cache; another port, host or wire is another."""
    one = asked("127.0.0.1").request
    assert asked("localhost").request.key == asked("[::1]").request.key == one.key
    others = {asked(host).request.key for host in ("localhost.example.org", "127.0.0.2", "h")}
    assert one.key not in others
    assert len(others) == 3
    assert asked("localhost", identity="lab").request.endpoint == "lab"
    assert asked("localhost", wire="anthropic").request.endpoint == "http://127.0.0.1:8000/v1#anthropic"
