"""`.env` in the working folder: what it sets, what it leaves alone, and that nothing of it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig import svr

from svr_async.commands.dotenv import load_dotenv, read_dotenv
from svr_async.errors import ConfigError

TEXT = """
# keys
OPENAI_API_KEY=sk-plain-1
export GROQ_API_KEY = "gsk # not a comment"   # a comment
SINGLE='it is $HOME'
SPACED=a b # a comment
EMPTY=
not a line
1BAD=x
PYTHONPATH=/evil
PATH=/evil
"""


def test_lines_are_read_as_people_write_them() -> None:
    """With and without export, quotes and comments; other lines are left out."""
    found = dict(read_dotenv(TEXT))
    assert found["OPENAI_API_KEY"] == "sk-plain-1"
    assert found["GROQ_API_KEY"] == "gsk # not a comment"
    assert found["SINGLE"] == "it is $HOME"
    assert (found["SPACED"], found["EMPTY"]) == ("a b", "")
    assert "1BAD" not in found


def test_the_environment_goes_over_the_file(tmp_path: Path) -> None:
    """Set variables stay, as do those that decide which programs run; a missing or binary file sets nothing."""
    (tmp_path / ".env").write_text(TEXT)
    environment = {"OPENAI_API_KEY": "sk-own-1", "PATH": "/bin"}
    load_dotenv(tmp_path / ".env", environment)
    assert environment["OPENAI_API_KEY"] == "sk-own-1"
    assert environment["GROQ_API_KEY"] == "gsk # not a comment"
    assert environment["PATH"] == "/bin"
    assert "PYTHONPATH" not in environment
    (tmp_path / "binary").write_bytes(b"A=\xff\xfe")
    for name in ("binary", "none"):
        before = dict(environment)
        load_dotenv(tmp_path / name, environment)
        assert environment == before


@pytest.mark.parametrize("address", ["http://[x", "http://[2J]/v1", "https://elsewhere.example/v1"])
def test_an_address_of_the_file_gets_no_key_of_the_environment(tmp_path: Path, address: str) -> None:
    """Whether it is an address or not, it is named, and refused."""
    (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={address}\n")
    with pytest.raises(ConfigError, match=r"sends \$OPENAI_API_KEY"):
        load_dotenv(tmp_path / ".env", {"OPENAI_API_KEY": "sk-own"})


def test_a_command_takes_keys_and_flags_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key in it is set for `svr judges`, SVR_CACHE in it names the cache, and no value is printed."""
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / ".env").write_text("OPENAI_API_KEY=sk-sentinel-77\nSVR_CACHE=here/cache\n")
    done = svr("judges", "--json", cwd=tmp_path)
    assert '"key_is_set": true' in done.stdout
    assert "sk-sentinel-77" not in done.stdout + done.stderr
    done = svr("cache", "stats", cwd=tmp_path)
    assert "here/cache" in done.stdout + done.stderr
