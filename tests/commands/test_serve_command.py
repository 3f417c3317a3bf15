"""`svr serve`: the command that says where it listens, ends in order at SIGTERM, and refuses in one line."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from rig import RULES, background, svr_here

from svr_async.engine.cache import Cache


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The first line has the address and the judge's label; SIGTERM ends it with 0 and what was done."""
    flags = ("serve", *RULES, "--listen", "0", "--group-size", "2", "--token-env", "REWARD_TOKEN", "--fallback", "-1")
    with background(*flags, cwd=tmp_path, REWARD_TOKEN="t") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "rules (offline checks, no model)" in line
        url = line.split(" at ")[1].split()[0]
        body = json.dumps({"prompt": "Name a colour.", "responses": ["Great question! Blue!", "Blue."]}).encode()
        with urlopen(Request(f"{url}/reward", data=body, headers={"Authorization": "Bearer t"}), timeout=20) as reply:
            told = json.loads(reply.read())
        assert told[0] == -told[1] != 0.0
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert "1 requests, 2 rewards, 0 of them the fallback" in out
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ((), "no judge is named"),
        ((*RULES, "--listen", "nowhere"), "is not PORT or HOST:PORT"),
        ((*RULES, "--token-env", "NO_SUCH_TOKEN"), "--token-env NO_SUCH_TOKEN: the variable has no token"),
        ((*RULES, "--top-k", "3"), "top_k and rephrase need a bank"),
        ((*RULES, "--bank", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_served_is_one_line(
    flags: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit 2, and what is wrong."""
    Cache.open(tmp_path / "cache").close()
    assert svr_here("serve", *flags, "--cache", tmp_path / "cache") == 2
    shown = capsys.readouterr()
    assert says in shown.err
    assert (shown.err.count("\n"), shown.out) == (1, "")
