"""The pages of the docs, and their examples: how each kind is run, and what an example may say of itself.

A comment ahead of a fence, which no reader of the page sees, may say

    <!-- skip: next without("Docker") -->      it is run where there is that: of NEEDED
    <!-- file: judges.toml -->                 it is a file that the commands below it read
    <!-- given: bank=banks/first/bank -->      a copy of a file or folder of the tutorial
    <!-- stands: DIR=data URL#MODEL=lab -->    what the names of the reader's own things stand for in commands
    <!-- served: hub train.parquet=rows.parquet -->   a hub on this machine, which has these files
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest import SkipTest

from local_hub import local_hub
from pytest import MonkeyPatch  # noqa: PT013
from shell import Shell, matches, steps
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser
from sybil.parsers.markdown.lexers import DirectiveInHTMLCommentLexer
from sybil.typing import Parser

ROOT = Path(__file__).parents[2]
FRESH = "a fresh checkout"
NEEDED: Mapping[str, Callable[[], object]] = {
    "the package trl": lambda: find_spec("trl"),
    FRESH: lambda: False,  # test_newcomer.py runs these
}
OTHERS = ("vLLM and a GPU", "Docker", "a new environment")  # no test runs these
FILES = ("toml", "yaml", "json", "text")
Maker = Callable[[str], Path]


def pages() -> list[Path]:
    """Return all pages that people read, the generated reference too."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@dataclass
class Runner:
    """Runs the examples of one page in the working folder; `make` returns something that is given, by its name."""

    shell: Shell
    make: Maker
    target: str = ""

    def page(self, path: Path) -> list[str]:
        """Run all examples of a page in their order; return why each that was left out was."""
        left_out = []
        for example in parse(path, self):
            try:
                example.evaluate()
            except SkipTest as skip:
                left_out.append(str(skip))
        return left_out

    def without(self, *wanted: str) -> str | None:
        """Return the first thing of those that an example needs that is not here; None where all are."""
        here = {what: bool(known()) for what, known in NEEDED.items()}
        return next((what for what in wanted if not here.get(what)), None)

    def python(self, example: Example) -> None:
        """Run Python; the lines that it says it prints (`# → …`) must come in this order."""
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            PythonEvaluator()(example)
        expected = re.findall(r"^ *# → (.*)$", str(example.parsed), re.MULTILINE)
        pattern = ".*".join(re.escape(line).replace("…", ".*?") for line in expected)
        assert re.search(pattern, out.getvalue(), re.DOTALL), f"{where(example)} printed {out.getvalue()!r}"

    def console(self, example: Example) -> None:
        """Run a session: `$ command` lines, and below each what it prints, where the page says so."""
        self._session(example, "$ ")

    def commands(self, example: Example) -> None:
        """Run lines that are commands and nothing else."""
        self._session(example, "")

    def _session(self, example: Example, prompt: str) -> None:
        session = [*steps(str(example.parsed), prompt=prompt)]
        for place, step in enumerate(session):
            done = self.shell.do(step.command)
            asked = [later.command for later in session[place + 1 : place + 2]] == ["echo $?"]
            assert done.code == 0 or asked, f"{where(example)}: {step.command} ended {done.code}: {done.shown}"
            if step.output and not matches(step.output, done.shown):
                raise AssertionError(f"{where(example)}: {step.command} printed\n{done.shown}")

    def file(self, example: Example) -> None:
        """Write the fence below a `file:` comment."""
        if self.target:
            Path(self.target).write_text(self.shell.there(str(example.parsed)), "utf-8")
            if self.target == "judges.toml":
                self.shell.do("export SVR_JUDGES=judges.toml")
        self.target = ""

    def name_file(self, example: Example) -> None:
        """Remember the name that a `file:` comment gives."""
        self.target = example.parsed

    def give(self, example: Example) -> None:
        """Copy what a `given:` comment names."""
        for place, thing in map(named, example.parsed.split()):
            made, target = self.make(thing), Path(place)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(made, target) if made.is_dir() else shutil.copy(made, target)

    def stand(self, example: Example) -> None:
        """Have commands below take something else where they have the name of a thing of the reader's."""
        self.shell.stands |= dict(map(named, example.parsed.split()))

    def serve(self, example: Example) -> None:
        """Serve a hub, which has the files of a `served:` comment."""
        hub = self.shell.stack.enter_context(local_hub(self.shell.stack.enter_context(MonkeyPatch.context())))
        hub.files |= {name: Path(file).read_bytes() for name, file in map(named, example.parsed.split()[1:])}


def named(word: str) -> tuple[str, str]:
    """Cut `name=value`."""
    name, _, value = word.partition("=")
    return name, value


def directive(name: str, evaluator: Callable[[Example], None]) -> Callable[[Document], Iterator[Region]]:
    """Return a parser of `<!-- name: arguments -->`."""
    lexer = DirectiveInHTMLCommentLexer(name, arguments=".+?")

    def parse_document(document: Document) -> Iterator[Region]:
        for region in lexer(document):
            yield Region(region.start, region.end, region.lexemes["arguments"].strip(), evaluator)

    return parse_document


def parse(path: Path, runner: Runner) -> list[Example]:
    """Return the examples of a page, comments that speak of them among them."""
    parsers: list[Parser] = [
        SkipParser(),
        directive("file", runner.name_file),
        directive("given", runner.give),
        directive("stands", runner.stand),
        directive("served", runner.serve),
        CodeBlockParser("python", runner.python),
        CodeBlockParser("console", runner.console),
        CodeBlockParser("sh", runner.commands),
        *(CodeBlockParser(kind, runner.file) for kind in FILES),
    ]
    document = Sybil(parsers).parse(path)
    document.namespace["without"] = runner.without
    return [*document]


def where(example: Example) -> str:
    """Return the page and line of an example."""
    return f"{Path(example.path).relative_to(ROOT)}:{example.line}"
