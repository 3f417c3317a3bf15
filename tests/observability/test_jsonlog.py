"""The log of JSON lines: its schema, its levels, that lines stay whole, and that no key is ever in it."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st
from made_events import call

from svr_async.engine import events
from svr_async.engine.events import EngineStopped, Event, ItemFailed, RetryPlanned, RunEnded, RunStarted
from svr_async.engine.secrets import environment_secrets
from svr_async.observability.jsonlog import JsonLog

DOCS = Path(__file__).parents[2] / "docs" / "observability.md"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log; each has to be JSON."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def logged(path: Path, *emitted: Event, **settings_: Any) -> list[dict[str, Any]]:
    """Log events and return the lines."""
    log = JsonLog(str(path), **settings_)
    for event in emitted:
        log(event)
    log.close()
    assert (log.dropped, log.problem) == (0, "")
    return lines_of(path)


def test_a_line_has_time_run_process_and_the_events_own_fields(tmp_path: Path) -> None:
    """Times are UTC to the millisecond; fields carry the names of the event's record."""
    (line,) = logged(tmp_path / "log", ItemFailed(key="k", outcome="api_error", detail="slow down"), run="r1")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line.pop("pid") == os.getpid()
    assert line == {"run": "r1", "event": "item_failed", "key": "k", "outcome": "api_error", "detail": "slow down"}


def test_a_line_a_call_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """The level `run` leaves out calls and retries, `call` has them; single HTTP requests are in neither."""
    emitted: list[Event] = [
        RunStarted(command="eval", version="1", config="c"),
        events.AttemptEnded(key="k", model="m", endpoint="", status=200, seconds=0.1),
        call(),
        RetryPlanned(key="k", kind="transient", attempt=1, detail="d"),
        ItemFailed(key="k", outcome="api_error", detail="d"),
        EngineStopped(error="AuthError", detail="d"),
        RunEnded(command="eval", exit_code=4, seconds=1.0),
    ]
    run = [line["event"] for line in logged(tmp_path / "run", *emitted)]
    assert run == ["run_started", "item_failed", "engine_stopped", "run_ended"]
    every = [line["event"] for line in logged(tmp_path / "call", *emitted, level="call")]
    assert every == ["run_started", "call_ended", "retry_planned", "item_failed", "engine_stopped", "run_ended"]


def test_a_log_is_continued_and_a_torn_line_ended(tmp_path: Path) -> None:
    """Earlier lines stay; a line that a kill cut short does not swallow the next one."""
    path = tmp_path / "log"
    path.write_bytes(b'{"event":"old"}\n{"event":"cu')
    JsonLog(str(path)).close()
    logged_line = EngineStopped(error="e", detail="d")
    log = JsonLog(str(path))
    log(logged_line)
    log.close()
    whole = path.read_bytes().splitlines()
    assert whole[:2] == [b'{"event":"old"}', b'{"event":"cu']
    assert orjson.loads(whole[2])["event"] == "engine_stopped"


def test_a_full_disk_costs_lines_and_nothing_else(tmp_path: Path) -> None:
    """Lines that cannot be written are counted with the reason; logging continues."""
    log = JsonLog("/dev/full")
    log(EngineStopped(error="e", detail="d"))
    log.close()
    assert (log.dropped, log.problem) == (1, "No space left on device")


# --- keys -------------------------------------------------------------------------------------------------------------


def test_keys_are_masked_whatever_they_came_in(tmp_path: Path) -> None:
    """Secrets that are given, and values of variables named like secrets, appear in no line; short words stay."""
    named = {"MY_API_KEY": "sk-named-7654321", "A_TOKEN": "word", "HOME": "/home/u"}
    (line,) = logged(
        tmp_path / "log",
        EngineStopped(error="word", detail="sk-given-1234567 sk-named-7654321 /home/u"),
        hidden=environment_secrets(["sk-given-1234567"], named),
    )
    assert (line["error"], line["detail"]) == ("word", "[key] [key] /home/u")


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=30).filter(lambda text: text.strip()))
def test_no_secret_survives_in_text_or_json(secret: str) -> None:
    """Quotes, controls and letters of any script in a key make no difference."""
    secrets = environment_secrets([secret], {})
    assert secret not in secrets.mask(f"a{secret}b")
    line = secrets.mask_bytes(orjson.dumps({"detail": f"a{secret}b"}))
    assert b"[key]" in line
    assert secret not in str(orjson.loads(line))


# --- schema -----------------------------------------------------------------------------------------------------------


def test_every_event_and_field_is_in_the_documentation() -> None:
    """docs/observability.md names each event of the log and each of its fields."""
    text = DOCS.read_text("utf-8")
    for kind in get_args(events.Event):
        if kind is events.AttemptEnded:
            continue
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower()
        row = next((line for line in text.splitlines() if line.startswith(f"| `{name}`")), "")
        assert row, f"{name} has no row"
        for field in fields(kind):
            assert f"`{field.name}`" in row, f"{name}.{field.name} is not in its row"
