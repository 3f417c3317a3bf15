"""Row 120: a key that is easy to find, given to the commands that send it, is in no file and on no screen."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web
from rig import background, name_judge, serving_routes, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group

SENTINEL = "sk-sentinel/4f9c+2e7d1b"
ESCAPED = (SENTINEL.replace("/", "\\/"), SENTINEL.replace("+", "\\u002B"), SENTINEL.replace("/", "\\\\\\/"))  # by JSON
FORMS = [
    form.encode()
    for form in (SENTINEL, quote(SENTINEL, safe=""), base64.b64encode(SENTINEL.encode()).decode(), *ESCAPED)
]
Mode = Callable[[str], web.Response]


def _json(status: int, text: str, **headers: str) -> web.Response:
    error = {"message": f"your header was {text}", "type": text, "code": None, "param": text}
    return web.json_response({"error": error}, status=status, headers={"X-Echo": text, **headers})


def _escaped(status: int, form: str) -> Mode:
    """Answer as some servers do: JSON with characters of the key written as escapes."""

    def mode(_: str) -> web.Response:
        body = '{"error": {"message": "bad key %s"}, "model": "m", "choices": [{"message": {"content": "[[A]] %s"}}]}'
        return web.Response(status=status, text=body % (form, form), content_type="application/json")

    return mode


def _answer(text: str) -> web.Response:
    choice = {"message": {"role": "assistant", "content": f"[[{text}]] {text}"}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    reply = {"id": text, "model": text, "system_fingerprint": text, "choices": [choice], "usage": usage}
    return web.json_response({**reply, "data": [{"id": text}]})


MODES: dict[str, Mode] = {
    "an error that repeats the header": lambda text: _json(500, text),
    "a refusal of the item that repeats it": lambda text: _json(400, text),
    "a rate limit that repeats it": lambda text: _json(429, text, **{"Retry-After": "0.01"}),
    "an answer that repeats it": _answer,
    "a page that repeats it": lambda text: web.Response(text=f"<html>{text}</html>", content_type="text/html"),
    "a sign-in page with 401": lambda text: web.Response(
        status=401, text=f"<html><title>{text}</title></html>", content_type="text/html"
    ),
    "a 403 that repeats it": lambda text: _json(403, text),
    "an error with escaped slashes": _escaped(500, ESCAPED[0]),
    "a refusal with escaped slashes": _escaped(401, ESCAPED[0]),
    "an answer with an escaped plus": _escaped(200, ESCAPED[1]),
    "an answer with slashes escaped twice": _escaped(200, ESCAPED[2]),
    "a content coding of that name": lambda text: web.json_response({}, headers={"Content-Encoding": text}),
    "a redirect that repeats it": lambda text: web.Response(status=307, headers={"Location": f"/?k={quote(text)}"}),
}


class Echo:
    """What the echoing server answers with."""

    mode: Mode = MODES["an answer that repeats it"]
    base_url = ""


@contextmanager
def echoing() -> Iterator[Echo]:
    """Serve, from a thread, an endpoint that repeats the caller's key wherever it can."""
    echo = Echo()

    async def handle(request: web.Request) -> web.Response:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        assert key == SENTINEL
        return echo.mode(key)

    with serving_routes(web.route("*", "/v1/{rest:.*}", handle)) as address:
        echo.base_url = f"{address}/v1"
        yield echo


def found_in(data: bytes) -> bool:
    """Whether any form of the key is in some bytes."""
    return any(form in data for form in FORMS)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Echo]]:
    """Prepare a folder whose judge is the echoing endpoint; at the end no file below it may hold the key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", SENTINEL)
    write_bench(tmp_path / "bench.jsonl", 4)
    rows = [f'{{"id": "{n}", "prompt": "Which?", "chosen": "this {n}", "rejected": "that {n}"}}' for n in range(30)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    for name in ("one.txt", "other.txt"):
        (tmp_path / name).write_text(f"text {name}")
    with echoing() as echo:
        name_judge(tmp_path, echo.base_url, key_env="OPENAI_API_KEY", price=[1, 1, 1])
        yield tmp_path, echo
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path.name for path in files if found_in(path.read_bytes())] == []


BENCH = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--give-up-after", "1", "--max-calls", "6")
COMMANDS: dict[str, tuple[str, ...]] = {
    "eval": (*BENCH, "-v", "--cache", "cache", "--concurrency", "2"),
    "eval with rubrics": (*BENCH, "-v", "--method", "self-rubric", "--json"),
    "doctor": ("doctor", "--judge", "sim"),
    "train": ("train", "pairs.jsonl", "--judge", "sim", "--out", "trained", "--max-calls", "3", "-q"),
    "a dry run": (*BENCH, "--dry-run"),
    "judges": ("judges",),
}


@pytest.mark.parametrize("mode", MODES, ids=[name.replace(" ", "-") for name in MODES])
def test_row_120_the_key_is_nowhere(
    place: tuple[Path, Echo], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """An endpoint that repeats the key in errors, pages, ids and answers puts it into no file and no line of ours."""
    folder, echo = place
    echo.mode = MODES[mode]
    commands = (
        COMMANDS if mode == "an answer that repeats it" else {name: COMMANDS[name] for name in ("eval", "doctor")}
    )
    for number, (name, args) in enumerate(commands.items()):
        out = ("--out", f"run-{number}") if name.startswith("eval") else ()
        code = run(group, "svr", [*args, *out])
        said = capfd.readouterr()
        assert not found_in((said.out + said.err).encode()), name
        assert code in {0, 1, 2, 3, 4, 6}, said.err
    for made in folder.glob("run-*/items.jsonl"):
        assert run(group, "svr", ["report", str(made.parent)]) == 0
    assert run(group, "svr", ["cache", "verify", "--cache", "cache"]) in {0, 2}
    said = capfd.readouterr()
    assert not found_in((said.out + said.err).encode())


def test_row_120_the_key_is_in_no_traceback(place: tuple[Path, Echo]) -> None:
    """With tracebacks asked for, and a bug in the middle of a call, the key is in none of what is shown."""
    _, echo = place
    echo.mode = MODES["an error that repeats the header"]
    with background(
        *BENCH, "-v", "--out", "run", cwd=Path.cwd(), SVR_TRACE="1", PYTHONASYNCIODEBUG="1", PYTHONFAULTHANDLER="1"
    ) as process:
        out, errors = process.communicate(timeout=50)
    assert process.returncode in {1, 3, 4, 6}
    assert not found_in((out + errors).encode())


def test_the_search_would_find_it(tmp_path: Path) -> None:
    """The search itself finds the key in each of the forms that it can take."""
    found: list[Any] = [found_in(b"x" + form + b"y") for form in FORMS]
    assert found == [True] * 6
    assert not found_in(b"nothing")
