"""The engine's small parts: secrets, requests, replies, money, the failures log."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.engine.failures import FailureLog
from svr_async.engine.money import Budget, Price
from svr_async.engine.reply import BadBodyError, Reply, Usage, preview
from svr_async.engine.request import Request, estimate_tokens
from svr_async.engine.secrets import MASK, Secret, key_from_environment, refuse_key_in_url
from svr_async.engine.wires.openai import error_in_body, read_completion
from svr_async.errors import BudgetError, ConfigError, StorageError
from svr_async.vocabulary.verdict import Outcome

KEY = "sk-test-0123456789"


def test_a_secret_shows_itself_nowhere() -> None:
    """repr, str, formatting and pickling of a secret never give the text."""
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]}"
    assert secret.reveal() == KEY
    assert secret.mask(f"Bearer {KEY}, again {KEY}") == f"Bearer {MASK}, again {MASK}"
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert not Secret("")
    assert Secret("").mask("text") == "text"


@pytest.mark.parametrize("word", ["EMPTY", "none", "a", "0"])
def test_a_key_that_is_a_word_changes_no_answer(word: str) -> None:
    """What is given as a key to an endpoint that asks for none is left in the judge's words."""
    reply = f'{{"text": "{word} of the two is better: a 0"}}'
    assert Secret(word).mask(reply) == reply
    assert Secret(word).mask_bytes(reply.encode()) == reply.encode()
    assert word not in repr(Secret(word)).removeprefix("Secret")


@pytest.mark.parametrize(
    "form",
    [
        r"sk-a/b+c\d",
        r"sk-a\/b+c\d",
        r"sk-a\u002fb\u002Bc\u005cd",
        "".join(f"\\u{ord(char):04x}" for char in r"sk-a/b+c\d"),
        r"sk-a\\\/b\\u002bc\d",
    ],
)
def test_a_key_is_masked_however_json_writes_it(form: str) -> None:
    """Escaped slashes, characters by number, and JSON inside JSON hide no key; the rest stays as it came."""
    secret = Secret(r"sk-a/b+c\d")
    text = r'{"path": "a\/b", "sign": "\u00e9 \u002b", "key": "%s", "other": "sk-a\/b"}'
    assert secret.mask_bytes((text % form).encode()) == (text % MASK).encode()
    assert len(form.encode()) <= secret.longest_bytes
    assert Secret("").mask_bytes(form.encode()) == form.encode()


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable's text without the blanks around it; empty where it is not set or not named."""
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
        with pytest.raises(ConfigError, match="so that it is no key") as caught:
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
def test_base_urls_with_keys_or_without_sense_are_refused(url: str) -> None:
    """A key in a URL would be logged everywhere: refused in one line that does not repeat it."""
    with pytest.raises(ConfigError) as caught:
        refuse_key_in_url(url)
    assert KEY not in caught.value.one_line()


def test_a_plain_base_url_is_kept_without_its_last_slash() -> None:
    """The identity in cache keys does not depend on a trailing slash."""
    assert refuse_key_in_url("http://127.0.0.1:8000/v1/") == "http://127.0.0.1:8000/v1"


# --- requests --------------------------------------------------------------------------------------------------------

REQUEST = Request(endpoint="e", model="m", messages=(("system", "s"), ("user", "u")), params=(("temperature", 0.0),))


def test_the_key_covers_what_can_change_the_answer_and_nothing_else() -> None:
    """Endpoint, model, messages, token limit and parameters change the key; a gateway's cache control does not."""
    others = [
        Request(endpoint="f", model="m", messages=REQUEST.messages, params=REQUEST.params),
        Request(endpoint="e", model="n", messages=REQUEST.messages, params=REQUEST.params),
        Request(endpoint="e", model="m", messages=REQUEST.messages[:1], params=REQUEST.params),
        Request(endpoint="e", model="m", messages=REQUEST.messages, params=(("temperature", 1.0),)),
        REQUEST.with_max_tokens(1),
        REQUEST.with_repair("bad", "Mend it."),
    ]
    assert len({request.key for request in [REQUEST, *others]}) == len(others) + 1
    assert REQUEST.fresh().key == REQUEST.key
    assert REQUEST.fresh().body_bytes == REQUEST.body_bytes
    swapped = Request(endpoint="e", model="m", messages=REQUEST.messages, params=(*REQUEST.params, ("n", 1)))
    turned = Request(endpoint="e", model="m", messages=REQUEST.messages, params=(("n", 1), *REQUEST.params))
    assert swapped.key == turned.key


def test_a_repair_turn_shows_the_reply_and_what_is_wrong_with_it() -> None:
    """The model sees its own words, capped, and the problem; an empty reply still makes a turn."""
    repaired = REQUEST.with_repair("x" * 9000, "It was cut.")
    assert repaired.messages[:2] == REQUEST.messages
    assert repaired.messages[2] == ("assistant", "x" * 4000)
    assert repaired.messages[3][1].startswith("It was cut.")
    assert repaired.no_cache
    assert REQUEST.with_repair("", "p").messages[2] == ("assistant", "(empty)")


def test_the_body_is_what_an_openai_endpoint_expects() -> None:
    """Model, messages, the token limit under its configured name, and the parameters."""
    body = orjson.loads(Request(endpoint="e", model="m", messages=(("user", "u"),), max_tokens_field="mct").body_bytes)
    assert body == {"model": "m", "messages": [{"role": "user", "content": "u"}], "mct": 8192}
    assert REQUEST.prompt_chars == 2
    assert estimate_tokens(4000) == 1001


# --- replies ---------------------------------------------------------------------------------------------------------


def body(**extra: Any) -> bytes:
    """Return a completion's body."""
    message = {"role": "assistant", "content": "hi"}
    return orjson.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **extra})


def test_a_whole_completion_is_read() -> None:
    """Text, reason, tokens, model, fingerprint and id."""
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    reply = read_completion(body(usage=usage, model="m", system_fingerprint="f", id="1"))
    assert reply.usage == Usage(prompt_tokens=7, cached_tokens=3, completion_tokens=2)
    assert (reply.text, reply.model, reply.fingerprint, reply.id) == ("hi", "m", "f", "1")
    assert not reply.truncated
    assert not reply.refused
    assert Reply.from_bytes(reply.to_bytes()) == reply


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"<html>", b'{"choices": []}', b'{"choices": [null]}', b'{"choices": [{}]}',
     b'{"choices": {"0": 1}}', b'{"choices": [{"message": "text"}]}', b"\xff\xfe"],
)  # fmt: skip
def test_what_is_no_completion_is_named(data: bytes) -> None:
    """A cut, foreign or empty body is an error that shows its beginning, never an empty answer."""
    with pytest.raises(BadBodyError):
        read_completion(data)


def test_a_completion_cut_anywhere_is_noticed() -> None:
    """A body that ends early is not JSON at any byte, so a lost tail can never look like success."""
    whole = body(usage={"prompt_tokens": 7}, model="m")
    for end in range(len(whole)):
        with pytest.raises(BadBodyError):
            read_completion(whole[:end])


@pytest.mark.parametrize(
    "usage",
    [None, [], "many", {"prompt_tokens": -1}, {"prompt_tokens": "7"}, {"prompt_tokens": True}, {"prompt_tokens": 1.5},
     {"prompt_tokens": 10**12}, {"prompt_tokens_details": 3}],
)  # fmt: skip
def test_absurd_usage_counts_as_unknown(usage: Any) -> None:
    """Missing, negative, enormous or mistyped token counts are None, not numbers."""
    assert read_completion(body(usage=usage)).usage == Usage()


def test_odd_contents_are_texts() -> None:
    """Null content is empty, parts are joined, a refusal field is a refusal."""

    def reading(message: dict[str, Any], finish: str | None = "stop") -> Reply:
        return read_completion(orjson.dumps({"choices": [{"message": message, "finish_reason": finish}]}))

    assert reading({"content": None}).text == ""
    assert reading({}).text == ""
    assert reading({"content": [{"type": "text", "text": "a"}, 3, {"text": "b"}]}).text == "ab"
    assert reading({"content": None, "refusal": "I cannot"}).refused
    assert reading({"content": "x"}, "content_filter").refused
    assert reading({"content": "x"}, "length").truncated
    assert reading({"content": "x"}, None).finish_reason == "stop"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"error": {"code": "x"}}', {"code": "x"}),
        (b'{"error": "text"}', {"message": "text"}),
        (b'{"object": "error", "message": "vllm"}', {"object": "error", "message": "vllm"}),
        (b'{"detail": "Not Found"}', {"message": "Not Found"}),
        (b'{"detail": ["x"]}', {}), (b"[]", {}), (b"<html>", {}), (b'{"error": 5}', {}),
    ],
)  # fmt: skip
def test_errors_are_found_in_every_servers_shape(data: bytes, expected: dict[str, Any]) -> None:
    """OpenAI's, vLLM's and FastAPI's error bodies are understood; anything else is no error object."""
    assert error_in_body(data) == expected


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=600))
def test_a_preview_is_one_short_printable_line(data: bytes) -> None:
    """Whatever a server sent, what is shown of it cannot steer a terminal."""
    line = preview(data)
    assert len(line) <= 121
    assert line.isprintable()


# --- money -----------------------------------------------------------------------------------------------------------


def test_prices_are_per_million_and_cached_tokens_cost_their_own_price() -> None:
    """Fresh input, cached input and output are billed apart; what is unknown costs nothing."""
    price = Price(input=1.0, cached=0.1, output=10.0)
    usage = Usage(prompt_tokens=1_000_000, cached_tokens=400_000, completion_tokens=100_000)
    assert math.isclose(price.cost(usage), 0.6 + 0.04 + 1.0)
    assert price.cost(Usage()) == 0
    assert price.cost(Usage(prompt_tokens=5, cached_tokens=9)) >= 0


def test_the_call_cap_is_exact() -> None:
    """`max_calls` calls are let through, the next is a BudgetError that says how to go on."""
    budget = Budget(max_calls=2)
    budget.reserve()
    budget.reserve()
    with pytest.raises(BudgetError, match="--max-calls 2") as caught:
        budget.reserve()
    assert "the same command goes on" in caught.value.hint
    with pytest.raises(BudgetError):
        Budget(max_calls=0).reserve()


def test_calls_under_way_count_towards_the_budget() -> None:
    """The cap stops new calls as soon as those in flight, at the mean price so far, would reach it."""
    budget = Budget(max_usd=1.0)
    budget.reserve()
    budget.settle()
    budget.pay(0.3, untold_usd=0.0)
    budget.reserve()
    budget.reserve()
    budget.reserve()
    with pytest.raises(BudgetError, match=r"\$1 is reached"):
        budget.reserve()
    with pytest.raises(BudgetError):
        Budget(max_usd=0.0).reserve()


# --- the failures log ------------------------------------------------------------------------------------------------


def test_failures_are_remembered_by_the_next_process(tmp_path: Path) -> None:
    """Key, outcome and reason survive; the last word on a key counts; nothing is written without a path."""
    log = FailureLog(tmp_path / "failures.jsonl")
    log.add("k1", Outcome.PARSE_ERROR, "no verdict")
    log.add("k2", Outcome.API_ERROR, "HTTP 500")
    log.add("k2", Outcome.REFUSAL, "filtered")
    again = FailureLog(tmp_path / "failures.jsonl")
    assert again.get("k1") == (Outcome.PARSE_ERROR, "no verdict")
    assert again.get("k2") == (Outcome.REFUSAL, "filtered")
    assert (again.get("k3"), len(again)) == (None, 2)
    memory = FailureLog()
    memory.add("k", Outcome.TRUNCATED, "")
    assert memory.get("k") == (Outcome.TRUNCATED, "")


def test_a_torn_or_foreign_line_costs_only_itself(tmp_path: Path) -> None:
    """A line cut by a kill is ignored, and the next failure is not swallowed by it."""
    path = tmp_path / "failures.jsonl"
    log = FailureLog(path)
    log.add("k1", Outcome.API_ERROR, "one")
    whole = path.read_bytes()
    foreign = b'{"key": "k9", "outcome": "no such"}\n[1]\nnull\n\xff\n{"key": 5}\n'
    for cut in range(1, len(whole)):
        path.write_bytes(foreign + whole + whole[:cut])
        log = FailureLog(path)
        assert log.get("k1") == (Outcome.API_ERROR, "one")
        log.add("k2", Outcome.REFUSAL, "two")
        assert FailureLog(path).get("k2") == (Outcome.REFUSAL, "two"), cut


def test_forgetting_asks_again_and_destroys_nothing(tmp_path: Path) -> None:
    """With `forget` no failure is known, but the file is still there until something new is learnt."""
    path = tmp_path / "failures.jsonl"
    FailureLog(path).add("k1", Outcome.API_ERROR, "one")
    before = path.read_bytes()
    log = FailureLog(path, forget=True)
    assert log.get("k1") is None
    assert path.read_bytes() == before
    log.add("k2", Outcome.API_ERROR, "two")
    assert FailureLog(path).get("k2") is not None


def test_a_log_that_cannot_be_written_or_read_is_a_storage_error(tmp_path: Path) -> None:
    """A missing folder or a folder in the file's place is named in one line."""
    with pytest.raises(StorageError, match="cannot write"):
        FailureLog(tmp_path / "missing" / "failures.jsonl").add("k", Outcome.API_ERROR, "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="cannot read"):
        FailureLog(tmp_path / "folder")
