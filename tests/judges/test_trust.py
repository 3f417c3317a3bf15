"""Whose word sends a key to an address: a judges.toml or .env that came with a folder is nobody's until allowed."""

from __future__ import annotations

from pathlib import Path

import pytest
from rig import svr
from svr_async.judges.trust import allow, unasked

from svr_async.commands.dotenv import load_dotenv
from svr_async.errors import ConfigError
from svr_async.judges.profiles import find_profile, transport_to

AWAY = "https://collector.example/v1"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder of somebody's, with a home of one's own and a key of one's own."""
    (tmp_path / "cloned").mkdir()
    monkeypatch.chdir(tmp_path / "cloned")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    monkeypatch.setenv("AWS_SECRET", "own too")
    return tmp_path / "cloned"


def opened(name: str) -> None:
    """Open the way to a judge of the working folder, sending nothing."""
    profile = find_profile(name)
    transport_to(profile, profile.base_url, timeout_s=1.0)


@pytest.mark.parametrize(
    ("table", "judge", "told"),
    [
        (f'[gpt-4o-mini]\nbase_url = "{AWAY}"', "gpt-4o-mini", r"sends \$OPENAI_API_KEY to collector.example"),
        (f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"', "mine", r"sends \$OPENAI_API_KEY to collector.example"),
        (
            f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"\nkey_env = "AWS_SECRET"',
            "mine",
            r"sends \$AWS_SECRET to collector.example",
        ),
        (
            f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"\nkey_env = ""\nheaders = {{ x = "$AWS_SECRET" }}',
            "mine",
            r"sends \$AWS_SECRET to collector.example",
        ),
        (
            '[mine]\nmodel = "m"\nendpoint = "openai"\nkey_env = "AWS_SECRET"',
            "mine",
            r"sends \$AWS_SECRET to api.openai.com",
        ),
        (
            f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"\nkey_env = ""\nidentity = "https://api.openai.com/v1"',
            "mine",
            "answers of collector.example kept as those of https://api.openai.com/v1",
        ),
    ],
)
def test_a_folders_file_sends_no_key_on_its_own_word(folder: Path, table: str, judge: str, told: str) -> None:
    """Host and variable are named before anything is sent; allowed once, the file holds until it is changed."""
    file = folder / "judges.toml"
    file.write_text(table)
    with pytest.raises(ConfigError, match=told) as caught:
        opened(judge)
    assert "svr judges --allow" in (caught.value.hint or "")
    assert any(judge in line for line in allow(file))
    opened(judge)
    file.write_text(table + "\n# another\n")
    with pytest.raises(ConfigError, match=told):
        opened(judge)


@pytest.mark.parametrize(
    "table",
    [
        '[mine]\nmodel = "m"\nbase_url = "http://127.0.0.1:8000/v1"',
        '[mine]\nmodel = "m"\nendpoint = "openai"',
        f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"\nkey_env = ""',
        f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"\nkey_env = "NOT_SET"',
        '[gpt-4o-mini]\ntemperature = "unset"\n[mine]\nmodel = "m"\nendpoint = "groq"',
    ],
    ids=["this machine", "a known endpoint", "no key", "a variable that is not set", "settings alone"],
)
def test_what_sends_no_key_anywhere_new_needs_nobodys_leave(folder: Path, table: str) -> None:
    """Files that people keep beside their work go on working as they do."""
    (folder / "judges.toml").write_text(table)
    opened("mine")


def test_ones_own_configuration_and_the_command_line_are_believed(folder: Path) -> None:
    """A table of the user's own, and an address given by flag, send the key where they say."""
    own = folder.parent / "config" / "svr-async" / "judges.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'[mine]\nmodel = "m"\nbase_url = "{AWAY}"\nkey_env = "AWS_SECRET"')
    opened("mine")
    (folder / "judges.toml").write_text("[mine]\ntemperature = 0.5")
    opened("mine")
    (folder / "judges.toml").write_text('[mine]\nbase_url = "https://other.example/v1"')
    with pytest.raises(ConfigError, match=r"\$AWS_SECRET to other.example"):
        opened("mine")
    assert not list(unasked(find_profile("mine", base_url=AWAY)))


def test_the_command_names_what_it_allows(folder: Path) -> None:
    """`svr judges --allow` says what is allowed, and no escape sequence of the file reaches the terminal."""
    done = svr("judges", "--allow", cwd=folder)
    assert (done.returncode, "there is no" in done.stderr) == (2, True)
    (folder / "judges.toml").write_text(f'["x\\u001b[31m"]\nmodel = "m\\u001b]0;t"\nbase_url = "{AWAY}"\n')
    done = svr("judges", "--allow", cwd=folder)
    assert "sends $OPENAI_API_KEY to collector.example" in done.stdout
    assert "allowed as it stands" in done.stdout
    assert "\x1b" not in done.stdout + svr("judges", cwd=folder).stdout


def test_an_env_file_moves_no_key_that_is_not_its_own(tmp_path: Path) -> None:
    """An address of .env goes with a key of .env; who listens and what is the user's own are not its to say."""
    file = tmp_path / ".env"
    file.write_text(f"OPENAI_BASE_URL={AWAY}\nHTTPS_PROXY=http://evil\nhttp_proxy=x\nXDG_CONFIG_HOME=/x\nHOME=/x\n")
    with pytest.raises(ConfigError, match=r"sends \$OPENAI_API_KEY of the environment to collector.example"):
        load_dotenv(file, {"OPENAI_API_KEY": "sk-own"})
    environment: dict[str, str] = {}
    load_dotenv(file, environment)
    assert environment == {"OPENAI_BASE_URL": AWAY}
    file.write_text(f"OPENAI_BASE_URL={AWAY}\nOPENAI_API_KEY=sk-file\n")
    environment = {}
    load_dotenv(file, environment)
    assert environment == {"OPENAI_BASE_URL": AWAY, "OPENAI_API_KEY": "sk-file"}
    file.write_text("OPENAI_BASE_URL=http://localhost:8000/v1\n")
    load_dotenv(file, {"OPENAI_API_KEY": "sk-own"})
