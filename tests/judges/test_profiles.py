"""Judge profiles, prompt templates, rubric files, and opening a judge by its name."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.engine.http import HttpTransport
from svr_async.engine.money import Price
from svr_async.engine.secrets import Secret
from svr_async.errors import ConfigError
from svr_async.judges.open_judge import JudgeSpec, extras_of, transport_to
from svr_async.judges.profiles import find_profile, load_profiles, profile_file

URL = "http://127.0.0.1:8000/v1"


def write(folder: Path, text: str) -> Path:
    """Write a judges.toml, and select it for this test."""
    (folder / "judges.toml").write_text(text)
    os.environ["SVR_JUDGES"] = str(folder / "judges.toml")
    return folder


# --- profiles ---------------------------------------------------------------------------------------------------------


PAPERS = ["gpt-oss-120b", "gpt-oss-20b", "gpt-4o-mini", "deepseek-v4-flash", "qwen3.5-397b-a17b"]


def test_the_papers_five_judges_are_shipped() -> None:
    """They come first, each with a model, an endpoint and the paper's decoding."""
    profiles = load_profiles()
    assert list(profiles)[:5] == PAPERS
    for profile in map(profiles.__getitem__, PAPERS):
        assert profile.max_tokens == 8192
        assert dict(profile.params(structured=False))["temperature"] == 0.0
    reasoning = dict(profiles["gpt-oss-120b"].params(structured=True))
    assert reasoning == {"temperature": 0.0, "top_p": 1.0, "n": 1, "reasoning_effort": "medium"}
    assert dict(profiles["gpt-4o-mini"].params(structured=True))["response_format"] == {"type": "json_object"}
    assert "response_format" not in dict(profiles["gpt-4o-mini"].params(structured=False))


def test_every_setting_is_set_or_left_out(tmp_path: Path) -> None:
    """Numbers, texts and lists are sent as written; unset values are not sent, whatever the table below says."""
    table = 'temperature = 0.7\ntop_p = "unset"\nn = "unset"\nseed = 7\nstop = ["END", "STOP"]'
    write(tmp_path, f'[x]\nmodel = "m"\nbase_url = "{URL}"\n{table}\n[x.extra_body]\nprovider = {{ sort = "price" }}')
    params = dict(load_profiles()["x"].params(structured=True))
    assert params == {"temperature": 0.7, "seed": 7, "stop": ["END", "STOP"], "provider": {"sort": "price"}}
    write(tmp_path, '[gpt-oss-120b]\nreasoning_effort = "unset"\ntemperature = 1\nstop = "END"')
    own = load_profiles()["gpt-oss-120b"]
    assert dict(own.params(structured=False)) == {"temperature": 1, "top_p": 1.0, "n": 1, "stop": ["END"]}


def test_a_model_of_a_known_endpoint_needs_no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ENDPOINT:MODEL has its address, key and wire; a profile of that very model there is taken as it is."""
    new = find_profile("groq:some-new-model")
    assert (new.model, new.base_url, new.key_env) == (
        "some-new-model",
        "https://api.groq.com/openai/v1",
        "GROQ_API_KEY",
    )
    claude = find_profile("anthropic:claude-next")
    assert (claude.wire, claude.key_env) == ("anthropic", "ANTHROPIC_API_KEY")
    assert find_profile("openai:gpt-4o-mini") == load_profiles()["gpt-4o-mini"]
    assert find_profile("ollama:llama3:8b").model == "llama3:8b"
    monkeypatch.setenv("MISTRAL_API_KEY", "x")
    assert find_profile("https://api.mistral.ai/v1#m").key_env == "MISTRAL_API_KEY"
    assert find_profile("https://api.groq.com/openai/v1#m").key_env == "OPENAI_API_KEY"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env/v1")
    assert find_profile("groq:m").base_url == "https://api.groq.com/openai/v1"


def test_headers_and_parameters_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$NAME is filled in and kept secret; a variable that is not set is one line."""
    lines = (
        f'[x]\nmodel = "m"\nbase_url = "{URL}"\npath = "/deploy/chat"\nkey_header = "api-key"',
        'headers = { "X-Org" = "$MY_ORG", "X-Title" = "svr" }',
        'query = { "api-version" = "2024-10-21", "sig" = "$MY_SIG" }',
    )
    write(tmp_path, "\n".join(lines))
    own = load_profiles()["x"]
    with pytest.raises(ConfigError, match=r"judge x: headers X-Org is \$MY_ORG, which is not set"):
        extras_of(own)
    monkeypatch.setenv("MY_ORG", "org-sentinel-1")
    monkeypatch.setenv("MY_SIG", "sig sentinel/1")
    extras = extras_of(own)
    assert (
        extras.with_query(f"{URL}{extras.path}") == f"{URL}/deploy/chat?api-version=2024-10-21&sig=sig%20sentinel%2F1"
    )
    assert extras.head(own.spoken, Secret("sk-1")) == {"api-key": "sk-1", "X-Org": "org-sentinel-1", "X-Title": "svr"}
    assert extras.hidden(Secret("")).mask("a org-sentinel-1 b") == "a [key] b"
    assert "sentinel" not in repr(extras) + repr(own.facts())
    assert own.identity == f"{URL}/deploy/chat"


def test_users_profiles_extend_the_shipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration folder's file, or the one of $SVR_JUDGES in its place, changes setting by setting."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "config" / "svr-async"
    folder.mkdir(parents=True)
    mine = '["mine"]\nmodel="m"\nbase_url="http://h/v1"'
    (folder / "judges.toml").write_text(f"[gpt-4o-mini]\nprice = [1, 0.5, 4]\nrpm = 10\n{mine}")
    mini = load_profiles()["gpt-4o-mini"]
    assert (mini.price, mini.rpm, mini.structured) == (Price(input=1, cached=0.5, output=4), 10, "json_object")
    assert (mini.source, profile_file()) == (str(folder / "judges.toml"), folder / "judges.toml")
    assert load_profiles()["mine"].identity == "http://h/v1"
    write(tmp_path, "[gpt-4o-mini]\nrpm = 20")
    assert load_profiles()["gpt-4o-mini"].rpm == 20
    assert "mine" not in load_profiles()
    monkeypatch.setenv("SVR_JUDGES", str(tmp_path / "missing.toml"))
    with pytest.raises(ConfigError, match=r"cannot read .*missing.toml': No such file"):
        load_profiles()


def test_a_file_of_the_working_directory_is_read_only_when_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A judges.toml that came with a folder sends no key anywhere; the error says how to use it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-own")
    table = '[gpt-4o-mini]\nbase_url = "http://collector/v1"\n[lab]\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"'
    (tmp_path / "judges.toml").write_text(table)
    assert find_profile("gpt-4o-mini").base_url == "https://api.openai.com/v1"
    with pytest.raises(ConfigError, match="unknown judge 'lab'") as caught:
        find_profile("lab")
    assert "--judges judges.toml" in caught.value.hint
    run(group, "svr", ["judges", "--judges", "judges.toml", "--json"])
    assert "http://127.0.0.1:9/v1" in capsys.readouterr().out
    assert not os.environ["SVR_JUDGES"]


@pytest.mark.parametrize(
    ("judge", "base_url", "key", "host"),
    [
        ("gpt-4o-mini", "", "sk-openai", "api.openai.com"),
        ("deepseek-v4-flash", "", "sk-deepseek", "api.deepseek.com"),
        ("groq:m", "", "", "api.groq.com"),
        ("http://lab:8000/v1#m", "", "sk-openai", "lab"),
        ("gpt-4o-mini", "http://gateway/v1", "sk-openai", "gateway"),
    ],
)
async def test_a_key_goes_to_the_host_of_its_profile(
    judge: str, base_url: str, key: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or to the address on the command line; $OPENAI_BASE_URL moves no other provider's key."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai")
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-deepseek")
    if key == "sk-deepseek":
        monkeypatch.setenv("OPENAI_BASE_URL", "http://elsewhere/v1")
    profile = find_profile(judge, base_url=base_url)
    transport = transport_to(profile, profile.base_url, timeout_s=1.0)
    assert isinstance(transport, HttpTransport)
    assert (transport._url.host, transport._headers.get("Authorization", "")) == (host, key and f"Bearer {key}")


X = f'[x]\nmodel = "m"\nbase_url = "{URL}"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[x", "cannot read"), ('model = "m"', "outside a [judge] table"),
        ('[x]\nmodel = "m"', "missing required field `base_url`"),
        (f'[x]\nbase_url = "{URL}"', "missing required field `model`"),
        (f'[x]\nmodel = 5\nbase_url = "{URL}"', "model: Expected `str`, got `int`"),
        ('[x]\nmodel = "m"\nbase_url = "nope"', "judge x: 'nope' is not a base URL"),
        ('[x]\nmodel = "m"\nbase_url = "http://u:p@h/v1"', "user name or password"),
        ('[x]\nmodel = "m"\nendpoint = "groc"', "did you mean groq"),
        (X + "max_token = 5", "did you mean max_token"), (X + "zzz = 5", "known settings"),
        (X + 'effort_style = "loud"', "effort_style: Invalid enum value 'loud'"),
        (X + 'system_role = "developer"', "system_role: Invalid enum value"),
        (X + 'structured = "yes"', "structured: Invalid enum value"),
        (X + 'temperature = "cold"', "temperature: Expected `float | null`, got `str`"),
        (X + "n = 3", "n: Invalid enum value 3"), (X + 'path = "chat"', "path: Expected `str` matching regex"),
        (X + 'headers = "a"', "headers: Expected `object`, got `str`"),
        (X + 'headers = { Authorization = "Bearer k" }', "key in plain text"),
        (X + "concurrency = 0", "concurrency: Expected `int` >= 1"), (X + "key_env = 5", "key_env: Expected `str`"),
        (X + 'rpm = "fast"', "rpm: Expected"), (X + "price = [1, 2]", "price is"), (X + "price = 3", "price is"),
        (X + "price = [1, 2, -3]", "price is"),
    ],
)  # fmt: skip
def test_a_wrong_profile_is_named(tmp_path: Path, text: str, says: str) -> None:
    """File or judge, setting and cure, in one line; never a traceback."""
    write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_profiles()
    assert says in caught.value.one_line()


def test_several_endpoints_serve_one_judge(tmp_path: Path) -> None:
    """A list in the file, or commas; the first address names the cache, and all are checked like one."""
    one, two = 'base_url = "http://a/v1"', 'base_url = ["http://a/v1", "http://b/v1/"]'
    write(tmp_path, f'[x]\nmodel = "m"\n{two}\n[y]\nmodel = "m"\n{one}')
    both = find_profile("x")
    assert both.base_urls == ("http://a/v1", "http://b/v1")
    assert both.base_url == both.identity == find_profile("y").identity
    assert find_profile("x", base_url="http://b/v1").base_urls == ("http://b/v1",)
    assert find_profile("x", base_url="http://a/v1").base_urls == ("http://a/v1",)
    assert find_profile("y", base_url="http://c/v1, http://d/v1").base_urls[1] == "http://d/v1"
    assert replace(both, identity="lab").base_urls == both.base_urls
    for bad in ("http://a/v1,http://a/v1/", "http://a/v1,nonsense", "http://a/v1,http://u:p@h/v1"):
        with pytest.raises(ConfigError):
            find_profile("y", base_url=bad)


# --- opening ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "model", "hybrid"),
    [
        ("rules", "rules", None, False),
        ("recorded:x", "recorded", None, False),
        ("recorded:x+rules", "recorded", None, False),
        ("gpt-oss-120b", "gpt-oss-120b", "gpt-oss-120b", False),
        ("gpt-oss-120b+rules", "gpt-oss-120b+rules", "gpt-oss-120b", True),
        ("http://h/v1#m", "m", "m", False),
        ("http://h/v1#m+rules", "m+rules", "m", True),
    ],
)
def test_what_follows_judge_is_read_once(text: str, name: str, model: str | None, hybrid: bool) -> None:
    """`rules` and recordings send nothing; everything else is an endpoint's, with the rules judge in front or not."""
    spec = JudgeSpec.parse(text, base_url="http://other/v1")
    assert (spec.text, spec.name, spec.hybrid) == (text, name, hybrid)
    assert (spec.profile.model if spec.profile else None) == model
    assert (len(spec.key_variables) == 1) == (model is not None)
    assert spec.recording == (Path(text.removeprefix("recorded:")) if text.startswith("recorded:") else None)
