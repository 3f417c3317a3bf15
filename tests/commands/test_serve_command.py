"""`svr serve`: the command that says where it listens, ends in order at SIGTERM, and refuses in one line."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from urllib.request import Request, urlopen

from rig import RULES, background


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """The first line has the address and the judge's label; SIGTERM ends it with 0 and its counts."""
    flags = ("serve", *RULES, "--listen", "0", "--group-size", "2", "--token-env", "REWARD_TOKEN", "--fallback", "-1")
    with background(*flags, cwd=tmp_path, REWARD_TOKEN="t") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "rules (offline checks, no model)" in line
        url = line.split(" at ")[1].split()[0]
        body = json.dumps({"prompt": "Name a colour.", "responses": ["Great question! Blue!", "Blue."]}).encode()
        with urlopen(Request(f"{url}/reward", data=body, headers={"Authorization": "Bearer t"}), timeout=20) as reply:
            scores = json.loads(reply.read())
        assert scores[0] == -scores[1] != 0.0
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 0, errors
    assert "1 requests, 2 rewards, 0 of them the fallback" in out
    assert "Traceback" not in errors
