"""Runs sessions printed in the docs: `svr` runs in this process, `svr sim … &` and `svr serve … &` in threads."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import webbrowser
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from endpoint import SimConfig
from rig import serving

from svr_async.commands.eval import evaluate
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.commands.sim import sim
from svr_async.commands.train import fit

PROGRAMS = {"svr": group, "svr-eval": evaluate, "svr-fit": fit}
WRITTEN = {"out", "n_train", "n_test"}  # what `svr sim --write` alone uses
COMMENT = re.compile(r"(^|\s)#\s.*$")


@dataclass(frozen=True, slots=True)
class Done:
    """What a command printed, as a reader of the screen has it, and how it ended."""

    shown: str
    code: int


@dataclass(frozen=True, slots=True)
class Step:
    """A command as printed, and the output printed below it, or ""."""

    command: str
    output: str


def steps(source: str, *, prompt: str) -> Iterator[Step]:
    """Cut a session into steps; with an empty prompt each line is a command. A backslash continues a line."""
    lines = source.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.startswith(prompt) or not COMMENT.sub("", line).strip():
            continue
        command = line.removeprefix(prompt)
        while command.endswith("\\"):
            command = f"{command[:-1].rstrip()} {lines.pop(0).strip()}"
        output = []
        while prompt and lines and not lines[0].startswith(prompt):
            output.append(lines.pop(0).rstrip())
        yield Step(COMMENT.sub("", command).strip(), "\n".join(output).strip("\n"))


def matches(printed: str, shown: str) -> bool:
    """Whether an output is as printed: `…` in a line stands for anything in it, a line of `…` for any lines."""
    parts = []
    for line in printed.splitlines():
        text = r".*?".join(map(re.escape, re.split(r"\s*…\s*", line)))
        parts.append(r"(?:.*\n)*?" if line.strip() == "…" else text + r"[ ]*\n")
    lines = "\n".join(line.rstrip() for line in shown.strip("\n").splitlines())
    return re.fullmatch("".join(parts), lines + "\n") is not None


@dataclass
class Shell:
    """Runs commands in the working folder; an address that a printed `svr sim` listens on leads to one of a thread.

    `stands` has what the names of a reader's own things stand for.
    """

    stack: contextlib.ExitStack
    addresses: dict[str, str] = field(default_factory=dict)
    stands: dict[str, str] = field(default_factory=dict)
    last: int = 0
    patience_s: float = 20

    def do(self, command: str) -> Done:
        """Run a command; the exit code stays for `echo $?`."""
        command = self.meant(command)
        words = shlex.split(command)
        if words[0] == "export":
            if command.startswith("export BROWSER="):
                self.stack.enter_context(patch.object(webbrowser, "_tryorder", None))  # it reads the variable once
            named = dict(self.there(word).split("=", 1) for word in words[1:])
            self.stack.enter_context(patch.dict(os.environ, named))
            return Done("", 0)
        if command == "echo $?":
            return Done(f"{self.last}\n", 0)
        if words[:2] == ["svr", "sim"] and words[-1] == "&":
            return self._serve(words[2:-1])
        if words[:2] == ["svr", "serve"] and words[-1] == "&":
            return self._background(words[:-1])
        done = self._ours(words) if words[0] in PROGRAMS else self._other(command)
        self.last = done.code
        return done

    def meant(self, command: str) -> str:
        """Return a command with what the names of a reader's own things stand for."""
        for name, thing in self.stands.items():
            command = re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w])", thing, command)
        return command

    def _serve(self, args: list[str]) -> Done:
        with sim.make_context("svr sim", list(args)) as context:
            printed = context.params
            given = {name: value for name, value in printed.items() if name not in WRITTEN}
            config = SimConfig(**given | {"port": 0})
            server = self.stack.enter_context(serving(config))
        self.addresses[f"http://127.0.0.1:{printed['port']}"] = server.base_url.removesuffix("/v1")
        return Done("", 0)

    def _background(self, words: list[str]) -> Done:
        """Start `svr serve` in a process on a free port, until the page ends; return its first line."""
        place = words.index("--listen") + 1
        args = [str(Path(sys.executable).parent / words[0]), *words[1:place], "0", *words[place + 1 :]]
        process = self.stack.enter_context(subprocess.Popen(args, stdout=subprocess.PIPE, text=True))
        self.stack.callback(process.terminate)
        assert process.stdout is not None
        line = process.stdout.readline()
        self.addresses[f"http://127.0.0.1:{words[place]}"] = re.search(r"http://127\.0\.0\.1:\d+", line)[0]  # type: ignore[index]
        return Done(self._printed(line), 0)

    def _ours(self, words: list[str]) -> Done:
        target = words[-1] if words[-2] == ">" else None
        args = [self.there(word) for word in (words[1:-2] if target else words[1:])]
        screen, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(err):
            code = run(PROGRAMS[words[0]], words[0], args)
        screen.seek(0)
        out = screen.read()
        if target:
            with open(target, "w", encoding="utf-8") as file:  # noqa: PTH123  (as a shell does)
                file.write(out)
        return Done(self._printed(("" if target else out) + (err.getvalue() if code else "")), code)

    def _other(self, command: str) -> Done:
        done = subprocess.run(
            ["bash", "-c", self.there(command)], capture_output=True, text=True, check=False, timeout=self.patience_s,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )  # fmt: skip
        return Done(done.stdout + done.stderr, done.returncode)

    def there(self, word: str) -> str:
        for printed, real in self.addresses.items():
            word = word.replace(printed, real)
        return word

    def _printed(self, text: str) -> str:
        for printed, real in self.addresses.items():
            text = text.replace(real, printed)
        return text
