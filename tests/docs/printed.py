"""The commands that pages print, in fences, in indented blocks and within a line, each read by its own parser."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import click
from pages import ROOT
from shell import COMMENT, steps

from svr_async.commands.batch import command_of as batched
from svr_async.commands.main import svr

PROGRAMS = {"svr", "svr-eval", "svr-fit", "python", "python3", "make", "pip"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
HIDDEN = re.compile(r"<!--.*?-->", re.DOTALL)
BLOCK = re.compile(r"^ {4,}(?:\$ )?((?:\S*/)?(?:svr|svr-eval|svr-fit|python3?|make|pip) (?:.*\\\n)*.*)", re.MULTILINE)
LONGER = re.compile(r"\s{2,}[a-z].*$")  # the comment after a command without a `#`, as in a list of make's targets
SPAN = re.compile(r"(?<!`)`((?:svr|svr-eval|svr-fit|python3?|make|pip) [^`]+)`")
USAGE = re.compile(r"\[OPTIONS\]")
OPTIONAL = re.compile(r"(?<!\S)\[([^\]]*)\](?!\S)")
EITHER = re.compile(r"(?<=\s)[\w-]+(?:\|[\w-]+)+(?!\S)")
NAME = re.compile(r"…|[A-Z]")  # what stands for a value of the reader's, at its beginning
FILES = (click.Path, click.File)


@dataclass(frozen=True, slots=True)
class Printed:
    """A command that a page prints; in a line it may be a part of one, that names a flag without its value."""

    text: str
    whole: bool


class WrongCommandError(AssertionError):
    """A printed command that its program would refuse, and why."""


def printed(text: str) -> Iterator[Printed]:
    """Yield every command of ours, of Python, make and pip in a page's Markdown."""
    for _, kind, source in FENCE.findall(text):
        if kind in ("console", "sh"):
            commands = [step.command for step in steps(source, prompt="$ " if kind == "console" else "")]
            yield from (Printed(one, whole=True) for command in commands for one in joined(command))
    text = HIDDEN.sub("", FENCE.sub("", text))
    for found in BLOCK.findall(text):
        line = COMMENT.sub("", found.replace("\\\n", " "))
        yield from (Printed(one, whole=True) for one in joined(LONGER.sub("", line)))
    prose = re.sub(r"^ {4,}(?![-*\d]).*$", "", text, flags=re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n|\n(?=\||[-*] )", prose):
        for found in SPAN.findall(re.sub(r"\s+", " ", paragraph)):
            yield from (Printed(one, whole=False) for one in joined(found))


def joined(line: str) -> list[str]:
    """Return the commands of ours among those that a line joins, one for each of the words that `|` parts."""
    parts = [part.strip().removesuffix("&").strip() for part in line.split(" && ")]
    ours = [part for part in parts if part.split()[0].rpartition("/")[2] in PROGRAMS and not USAGE.search(part)]
    return [one for part in ours for one in alternatives(part)]


def alternatives(command: str) -> Iterator[str]:
    """Yield a command with each of `one|other` in its place."""
    found = EITHER.search(command)
    if not found:
        yield command
        return
    for word in found[0].split("|"):
        yield from alternatives(command.replace(found[0], word, 1))


def check(command: Printed) -> None:
    """Raise WrongCommandError where a command's program would not take its words."""
    words = shlex.split(OPTIONAL.sub(r"\1", command.text))
    words = words[: words.index(">")] if ">" in words else words
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program in ("svr", "svr-eval", "svr-fit"):
        of_svr([program[4:], *rest] if program != "svr" else rest, whole=command.whole)
    elif program == "make":
        expect(set(rest) <= TARGETS, f"make has no {rest}")
    elif program == "pip":
        of_pip(rest)
    elif not rest[0].startswith("-"):
        expect((ROOT / rest[0]).is_file(), f"there is no {rest[0]}")


def expect(holds: bool, why: str) -> None:
    """Raise WrongCommandError where something does not hold."""
    if not holds:
        raise WrongCommandError(why)


def of_svr(words: Sequence[str], *, whole: bool) -> None:
    """Have click read the words of `svr …`, values too, but for files and what stands for a reader's value."""
    command, names, rest = of_command(words, whole=whole)
    if isinstance(command, click.Group):
        expect(not rest or not whole or set(rest) <= {"--help", "--version"}, f"svr {' '.join(names)} has no {rest}")
    context = click.Context(command, info_name=" ".join(["svr", *names]), **command.context_settings)
    try:
        values, over, _ = command.make_parser(context).parse_args(list(rest))
        expect(not (whole and over), f"{over} are more than svr {' '.join(names)} takes")
        for param in command.params:
            of_value(param, values.get(param.name), context)
    except click.BadOptionUsage as error:
        expect(not whole and "requires" in error.message, error.message)
    except click.UsageError as error:
        raise WrongCommandError(error.format_message()) from None
    if names == ["batch", "export"] and isinstance(values.get("command"), tuple):
        of_svr(list(batched(values["command"])), whole=whole)


def of_command(words: Sequence[str], *, whole: bool) -> tuple[click.Command, list[str], list[str]]:
    """Return the command that words name, its names, and the words after them; `svr sim` by itself serves."""
    command: click.Command = svr
    names, rest = list[str](), list(words)
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), rest[0]) if rest else None
        if found is None:
            break
        command, names, rest = found, [*names, rest[0]], rest[1:]
    if isinstance(command, click.Group) and names == ["sim"]:
        command, names = command.commands["serve"], ["sim"]
    going_on = not rest or rest[0].startswith("-") or (not whole and NAME.match(rest[0]) is not None)
    expect(going_on or not isinstance(command, click.Group), f"svr has no {' '.join(words)}")
    return command, names, rest


def of_value(param: click.Parameter, value: object, context: click.Context) -> None:
    """Have a parameter convert its value, unless it is a file or a placeholder."""
    given = value if isinstance(value, (list, tuple)) else [value]
    known = all(isinstance(one, str) and not NAME.match(one) for one in given)
    if value and known and not isinstance(param.type, FILES):
        param.type_cast_value(context, value)


def of_pip(words: Sequence[str]) -> None:
    """Check that the extras and the list that `pip install` names are the project's."""
    for extras in re.findall(r"(?:^| )(?:\.|svr-async)\[([\w,-]+)\]", " ".join(words)):
        expect(set(extras.split(",")) <= EXTRAS, f"there is no extra {extras}")
    for name in re.findall(r"-r (\S+)", " ".join(words)):
        expect((ROOT / name).exists(), f"there is no {name}")
