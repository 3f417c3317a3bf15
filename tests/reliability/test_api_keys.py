"""An API key that an endpoint repeats in every way it can is in no file and in no output."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from aiohttp import web
from rig import name_judge, serving_routes, svr, svr_here, write_bench

KEY = "sk-sentinel/4f9c+2e7d1b"
ESCAPED = (KEY.replace("/", "\\/"), KEY.replace("+", "\\u002B"))
FORMS = [form.encode() for form in (KEY, quote(KEY, safe=""), base64.b64encode(KEY.encode()).decode(), *ESCAPED)]


def refusal(status: int, **headers: str) -> web.Response:
    """Return an error that repeats the key in each field and in a header."""
    error = {"message": f"your header was {KEY}", "type": KEY, "code": None, "param": KEY}
    return web.json_response({"error": error}, status=status, headers={"X-Echo": KEY, **headers})


def answer() -> web.Response:
    """Return a completion that repeats the key in each field."""
    choice = {"message": {"role": "assistant", "content": f"[[A]] {KEY}"}, "finish_reason": "stop"}
    reply = {"id": KEY, "model": KEY, "system_fingerprint": KEY, "choices": [choice], "data": [{"id": KEY}]}
    return web.json_response({**reply, "usage": {"prompt_tokens": 1, "completion_tokens": 1}})


def escaped(form: str, status: int = 401) -> web.Response:
    """Return a reply whose JSON writes characters of the key as escapes."""
    choice = f'{{"message": {{"content": "[[A]] {form}"}}, "finish_reason": "stop"}}'
    body = f'{{"id": "c", "model": "m", "error": {{"message": "bad key {form}"}}, "choices": [{choice}]}}'
    body = body.replace('"error"', '"extra"') if status == 200 else body
    return web.Response(status=status, text=body, content_type="application/json")


MODES: dict[str, Callable[[], web.Response]] = {
    "an error": lambda: refusal(500),
    "a refused request": lambda: refusal(400),
    "a rate limit": lambda: refusal(429, **{"Retry-After": "0.01"}),
    "an answer": answer,
    "a page": lambda: web.Response(text=f"<html><title>{KEY}</title></html>", content_type="text/html"),
    "escaped slashes": lambda: escaped(ESCAPED[0]),
    "an escaped plus": lambda: escaped(ESCAPED[1]),
    "an answer with an escaped plus": lambda: escaped(ESCAPED[1], 200),
    "a redirect": lambda: web.Response(status=307, headers={"Location": f"/?k={quote(KEY)}"}),
}
ASK = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--max-calls", "6",
       "-v", "--out", "run", "--cache", "cache")  # fmt: skip


def leaked(data: bytes) -> bool:
    """Whether some form of the key is in these bytes."""
    return any(form in data for form in FORMS)


@pytest.fixture(params=MODES)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Name an endpoint that repeats the key as the judge; at the end no file holds the key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    write_bench(tmp_path / "bench.jsonl", 4)

    async def handle(http: web.Request) -> web.Response:
        assert http.headers["Authorization"] == f"Bearer {KEY}"
        return MODES[request.param]()

    with serving_routes(web.route("*", "/v1/{rest:.*}", handle)) as address:
        name_judge(tmp_path, f"{address}/v1", key_env="OPENAI_API_KEY", price=[1, 1, 1])
        yield tmp_path
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path.name for path in files if leaked(path.read_bytes())] == []


def test_the_key_is_nowhere(place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Run folder, cache, report and output of an evaluation and of a check of the endpoint do not hold the key."""
    codes = [svr_here(*ASK), svr_here("doctor", "--judge", "sim")]
    if (place / "run" / "items.jsonl").exists():
        codes.append(svr_here("report", "run"))
    shown = capfd.readouterr()
    assert not leaked((shown.out + shown.err).encode())
    assert set(codes) <= {0, 2, 3, 4, 6}, shown.err


@pytest.mark.parametrize("place", ["an error"], indirect=True)
def test_the_key_is_in_no_traceback(place: Path) -> None:
    """With tracebacks and asyncio's debug mode on, the output does not hold the key."""
    done = svr(*ASK, cwd=place, SVR_TRACE="1", PYTHONASYNCIODEBUG="1")
    assert done.returncode in {1, 3, 4, 6}
    assert not leaked((done.stdout + done.stderr).encode())
