"""What many tests need: planted pairs, engines and judges on an endpoint, a scripted transport, subprocesses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web
from endpoint import SimConfig, SimServer
from forks import Forked

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.core.pair import Order, PreferencePair, Presentation, present
from svr_async.core.rubric import Rubric
from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.failures import FailureLog
from svr_async.engine.http import HttpTransport
from svr_async.engine.money import Budget, Price
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.secrets import Secret
from svr_async.engine.transport import RawReply
from svr_async.evaluation.run import Listener, run_now
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import prepare
from svr_async.judges.model import ModelJudge
from svr_async.judges.profiles import Profile
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import load_templates
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.world import PlantedPair, World, rubricbench_row

QUICK: dict[str, Any] = {"wait_s": 0.001, "max_wait_s": 0.02}
RULES = ("--judge", "rules")  # offline checks
LAUNCHER = Path(__file__).parents[1] / "cli.py"
DOMAINS = ("code", "math", "chat", "ifeval", "safety")


@cache
def planted(count: int) -> tuple[PlantedPair, ...]:
    """Return pairs of the planted world of seed 0, which every default simulated endpoint knows."""
    return tuple(World().pairs(count, "test"))


def pairs(count: int) -> list[PreferencePair]:
    """Return planted pairs with their human rubrics."""
    world = World()
    return [
        PreferencePair(
            id=item.pair.id,
            prompt=item.pair.prompt,
            chosen=item.pair.chosen,
            rejected=item.pair.rejected,
            chosen_first=item.pair.chosen_first,
            domain=DOMAINS[place % len(DOMAINS)],
            rubrics=world.human_rubrics(item),
        )
        for place, item in enumerate(planted(count))
    ]


def shown(index: int = 0, order: Order = Order.AB) -> Presentation:
    """Return one planted pair as a judge sees it."""
    return present(pairs(index + 1)[index], order)


def write_bench(path: Path, count: int) -> Path:
    """Write planted pairs in RubricBench's schema."""
    world = World()
    rows = [
        rubricbench_row(world, item) | {"domain": DOMAINS[place % len(DOMAINS)]}
        for place, item in enumerate(planted(count))
    ]
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return path


def write_bank(folder: Path) -> Path:
    """Write a small bank of the planted world's criteria, which a simulated endpoint recognises."""
    rubrics = tuple(BankRubric(rubric=Rubric(text=entry.rubric)) for entry in CRITERIA[:12])
    RubricBank(rubrics=rubrics, name="planted", inference=InferenceSettings(top_k=6)).save(folder)
    return folder


def profile(base_url: str, **settings: Any) -> Profile:
    """Return a profile for a simulated endpoint."""
    return Profile(**{"name": "sim", "model": "gpt-oss-120b", "base_url": base_url, "key_env": ""} | settings)


def writer(base_url: str = "http://127.0.0.1:1/v1", **settings: Any) -> QuestionWriter:
    """Return a writer of questions in the shipped words."""
    return QuestionWriter(profile(base_url, **settings), load_templates())


@contextlib.asynccontextmanager
async def engine_at(
    base_url: str,
    cache: Path,
    *,
    key: str = "",
    timeout_s: float = 20.0,
    budget: Budget | None = None,
    price: Price | None = None,
    failures: FailureLog | None = None,
    **config: Any,
) -> AsyncIterator[CallEngine]:
    """Open an engine with short waits on an endpoint."""
    settings = EngineConfig(**{"concurrency": 16, **QUICK, **config})
    transport = HttpTransport(base_url, Secret(key), timeout_s=timeout_s)
    opened = Cache.open(cache, patience_s=0.2)
    async with CallEngine(transport, opened, config=settings, budget=budget, price=price, failures=failures) as engine:
        yield engine


@contextlib.asynccontextmanager
async def judge_at(base_url: str, cache: Path, **config: Any) -> AsyncIterator[ModelJudge]:
    """Open a model judge with short waits on an endpoint."""
    async with engine_at(base_url, cache, **config) as engine:
        yield ModelJudge(engine, writer(base_url))


class Scripted:
    """A transport that answers each request by a function of (request, number of the call); no socket."""

    def __init__(self, answer: Callable[[Request, int], Any]) -> None:
        self.answer = answer
        self.sent: list[Request] = []
        self.closed = False

    async def send(self, request: Request) -> RawReply:
        """Note the request and return what the script says; a coroutine is awaited, an exception raised."""
        self.sent.append(request)
        answer = self.answer(request, len(self.sent) - 1)
        if hasattr(answer, "__await__"):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, RawReply)
        return answer

    async def close(self) -> None:
        """Note that the engine is done."""
        self.closed = True


@contextlib.asynccontextmanager
async def scripted_engine(
    cache: Path, answer: Callable[[Request, int], Any], **settings: Any
) -> AsyncIterator[tuple[CallEngine, Scripted]]:
    """Open an engine on a script; `budget`, `price` and `failures` go to the engine, the rest to its config."""
    transport = Scripted(answer)
    parts = {name: settings.pop(name) for name in ("budget", "price", "failures") if name in settings}
    config = EngineConfig(**{"concurrency": 8, **QUICK, **settings})
    async with CallEngine(transport, Cache.open(cache, patience_s=0.2), config=config, **parts) as engine:
        yield engine, transport


def verdict(content: str, side: str) -> str:
    """Return the mark that a direct question asks for."""
    return f"[[{side}]]"


def completion(text: str | None, finish: str = "stop", **extra: Any) -> RawReply:
    """Return a chat completion."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    body = {"id": "c1", "model": "m", "usage": usage, "choices": [{"message": message, "finish_reason": finish}]}
    return RawReply(status=200, headers={}, body=orjson.dumps(body | extra))


def refusal(status: int, message: str = "no", *, headers: Mapping[str, str] | None = None, **error: Any) -> RawReply:
    """Return an error reply in OpenAI's shape."""
    body = orjson.dumps({"error": {"message": message, **error}})
    return RawReply(status=status, headers=dict(headers or {}), body=body)


def ask(text: str = "hello", *, max_tokens: int = 100, bad: Sequence[str] = ("", "bad")) -> Question[str]:
    """Return a question that any text answers but those in `bad`."""

    def parse(reply: str) -> str:
        if reply in bad:
            raise ReplyRejectedError("Your answer was bad.")
        return reply

    request = Request(endpoint="e", model="m", messages=(("user", text),), max_tokens=max_tokens)
    return Question(request=request, parse=parse, placeholder=lambda: "planned", expected_tokens=7)


def environment(**extra: str) -> dict[str, str]:
    """Return this process's environment for a subprocess."""
    return {**os.environ, "PYTHONUNBUFFERED": "1", **extra}


def svr(*args: str | Path, cwd: Path, timeout: float = 50, **env: str) -> subprocess.CompletedProcess[str]:
    """Run `svr` in a separate process."""
    with background(*args, cwd=cwd, **env) as process:
        out, err = process.communicate(timeout=timeout)
        assert process.returncode is not None
        return subprocess.CompletedProcess(args, process.returncode, out, err)


def run_python(code: str, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of Python with arguments."""
    return subprocess.run(
        [sys.executable, "-c", code, *args], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=50,
        check=False,
    )  # fmt: skip


@contextlib.contextmanager
def background(*args: str | Path, cwd: Path, **env: str) -> Iterator[Forked | subprocess.Popen[str]]:
    """Run `svr` in the background; it is gone when the block ends."""
    process = started([*map(str, args)], cwd, env)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def started(args: list[str], cwd: Path, env: Mapping[str, str]) -> Forked | subprocess.Popen[str]:
    """Start `svr`; variables that Python itself reads need a new interpreter."""
    env = {"SVR_JUDGES": "judges.toml" if (cwd / "judges.toml").is_file() else "", **env}
    if not any(name.startswith(("PYTHON", "SSL_")) for name in env):
        return Forked(args, cwd=cwd, env=environment(**env))
    return subprocess.Popen(
        [sys.executable, str(LAUNCHER), *args],
        cwd=cwd, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_until(ready: Callable[[], bool], *, limit_s: float = 30.0) -> None:
    """Wait for something that happens in another process."""
    deadline = time.monotonic() + limit_s
    while not ready():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def evaluate(settings: EvalSettings, listener: Listener | None = None) -> Run:
    """Judge the pairs of the settings as `svr eval` does."""
    return run_now(prepare(settings), listener or Listener())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a JSON Lines file."""
    data = path.read_bytes() if path.exists() else b""
    return [orjson.loads(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n") and line.strip()]


@contextlib.contextmanager
def serving(config: SimConfig | None = None) -> Iterator[SimServer]:
    """Serve the simulated endpoint from a thread of this process, for commands that run in the main thread."""
    server = SimServer(config)
    with in_a_thread(server):
        yield server


@contextlib.contextmanager
def serving_routes(*routes: web.RouteDef, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Serve an application of these routes from a thread of this process; yields the address, such as `http://…:80`."""
    app, address = web.Application(), ""
    app.add_routes(routes)

    @contextlib.asynccontextmanager
    async def listening() -> AsyncIterator[None]:
        nonlocal address
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        address = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
        yield
        await runner.cleanup()

    with in_a_thread(listening()):
        yield address


@contextlib.contextmanager
def in_a_thread(server: AbstractAsyncContextManager[object]) -> Iterator[None]:
    """Hold a server open on an event loop in a separate thread."""
    ready, done = threading.Event(), threading.Event()

    async def serve() -> None:
        async with server:
            ready.set()
            while not done.is_set():  # noqa: ASYNC110  (the event belongs to another thread)
                await asyncio.sleep(0.01)

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        done.set()
        thread.join(20)


def own_cache(folder: Path) -> None:
    """Say that the cache of commands in a folder lies in it."""
    (folder / "cache").mkdir(exist_ok=True)
    (folder / "cache" / ".svr").touch()


def name_judge(folder: Path, base_url: str, **settings: Any) -> str:
    """Write and select a judges.toml with the judge `sim`, whose cache identity ignores the port; return its name."""
    own_cache(folder)
    values = {"model": "gpt-oss-120b", "base_url": base_url, "key_env": "", "identity": "sim"} | settings
    text = "".join(f"{name} = {orjson.dumps(value).decode()}\n" for name, value in values.items())
    write_judges(folder, f"[sim]\n{text}")
    return "sim"


def write_judges(folder: Path, text: str) -> Path:
    """Write a judges.toml into the folder where commands will run, and select it for this test."""
    path = folder / "judges.toml"
    path.write_text(text)
    os.environ["SVR_JUDGES"] = path.name
    return path


def steady_metrics(folder: Path) -> dict[str, Any]:
    """Return metrics.json without what may differ between equal runs."""
    metrics: dict[str, Any] = orjson.loads((folder / "metrics.json").read_bytes())
    return {name: value for name, value in metrics.items() if name not in {"wall_s", "calls", "paid_usd", "notes"}}


async def until(ready: Callable[[], bool]) -> None:
    """Let other tasks run until something has happened."""
    for _ in range(20_000):
        if ready():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("it did not happen")


def svr_here(*args: object) -> int:
    """Run `svr` in this process, with the judges.toml of the working folder if there is one; return the exit code."""
    if Path("judges.toml").is_file():
        os.environ["SVR_JUDGES"] = "judges.toml"
    return run(group, "svr", [str(arg) for arg in args])


def by_turn(*replies: Any) -> Callable[[Request, int], Any]:
    """Answer call number n with the n-th reply, the last one from then on."""
    return lambda _, n: replies[min(n, len(replies) - 1)]


def run_items(folder: str | Path = "run") -> bytes:
    """Return items.jsonl of a run."""
    return Path(folder, "items.jsonl").read_bytes()


def run_metrics(folder: str | Path = "run") -> dict[str, Any]:
    """Return metrics.json of a run."""
    found: dict[str, Any] = orjson.loads(Path(folder, "metrics.json").read_bytes())
    return found
