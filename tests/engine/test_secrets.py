"""API keys: never shown, read from the environment, refused in URLs."""

from __future__ import annotations

import pickle

import pytest

from svr_async.engine.secrets import MASK, Secret, Secrets, key_from_environment, refuse_key_in_url
from svr_async.errors import ConfigError

KEY = "sk-test-0123456789"


def test_a_secret_is_never_shown() -> None:
    """repr, str, formatting and pickling never give the text."""
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == KEY
    assert Secrets([secret]).mask(f"Bearer {KEY}, again {KEY}") == f"Bearer {MASK}, again {MASK}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert not Secret("")
    assert Secrets([Secret("")]).mask("text") == "text"


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The value of the variable without surrounding blanks; empty if not set; ConfigError if no header can carry it."""
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")
    assert key_from_environment("MY_KEY").reveal() == KEY
    assert not key_from_environment("NOT_SET_ANYWHERE")
    assert not key_from_environment("")
    for odd in (
        "sk-first-0123\nsecond-4567",
        "sk-\x1b[31m0123456789",
        "sk-\t0123456789",
        "sk-é0123456789",
        "k" * 55_000,
    ):
        monkeypatch.setenv("MY_KEY", odd)
        with pytest.raises(ConfigError, match="so it is not a key") as caught:
            key_from_environment("MY_KEY")
        assert "0123" not in caught.value.one_line()
        assert "kkk" not in caught.value.one_line()


@pytest.mark.parametrize(
    "url",
    [
        f"http://{KEY}@host/v1", f"http://user:{KEY}@host/v1", f"http://host/v1?api_key={KEY}", f"http://host/v1#{KEY}",
        "ftp://host/v1", "host:8000/v1", "http://", "", "http://[::1/v1",
    ],
)  # fmt: skip
def test_base_urls_with_keys_or_without_a_host_are_refused(url: str) -> None:
    """A key in a URL would be logged; the error does not repeat it."""
    with pytest.raises(ConfigError) as caught:
        refuse_key_in_url(url)
    assert KEY not in caught.value.one_line()
