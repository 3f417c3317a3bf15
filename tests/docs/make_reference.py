"""Write the pages that follow from the code (`make reference`): all commands, the public names, llms.txt."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

import svr_async
from svr_async.commands.main import svr

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = "<!-- written by `make reference`: change the code, not this page -->"


def main() -> None:
    """Write all of them."""
    for place, text in written().items():
        (DOCS / place).write_text(text, "utf-8")


def written() -> dict[str, str]:
    """Return the text of each page by its place below docs/."""
    pages = {"reference/cli.md": cli_page(), "reference/python.md": python_page()}
    return {**pages, "llms.txt": llms_text(pages)}


def cli_page() -> str:
    """Return the page of all commands, in the order of `svr --help`."""
    intro = "Every command and flag, from `--help`. Exit codes: [Commands](../commands.md#exit-codes)."
    variables = (
        "A flag can also stand in a file (`--config FILE.toml`) or a variable: `SVR_EVAL_JUDGE` for `svr eval --judge`."
    )
    ctx = click.Context(svr, info_name="svr")
    parts = [part for name in svr.list_commands(ctx) for part in command_parts(svr, name, ctx)]
    return "\n\n".join(["# Every command", WRITTEN, f"{intro}\n{variables}", *parts]) + "\n"


def command_parts(group: click.Group, name: str, parent: click.Context) -> Iterator[str]:
    """Yield the parts of a command, then those of its subcommands."""
    command = group.get_command(parent, name)
    assert command is not None
    ctx = click.Context(command, info_name=name, parent=parent)
    yield f"{'###' if parent.parent else '##'} {ctx.command_path}"
    yield from prose(command.help or "")
    if isinstance(command, click.Group):
        for inner in command.list_commands(ctx):
            yield from command_parts(command, inner, ctx)
    else:
        yield f"    {ctx.command_path} {' '.join(command.collect_usage_pieces(ctx))}"
        yield flag_table(command, ctx)


def prose(text: str) -> Iterator[str]:
    """Yield the paragraphs of a help text; what it keeps as it stands, as examples, becomes a block."""
    for part in re.split(r"\n\s*\n", textwrap.dedent(text).split("\f")[0].strip()):
        kept = part.strip().startswith("\b")
        lines = [line for line in part.replace("\b", "").splitlines() if line.strip()]
        if kept and re.fullmatch(r"\w+:", lines[0].strip()):
            yield lines.pop(0).strip()
        yield textwrap.indent(textwrap.dedent("\n".join(lines)), "    ") if kept else as_html(" ".join(lines))


def flag_table(command: click.Command, ctx: click.Context) -> str:
    """Return a row for each flag: its names and value, what it does."""
    rows = [flag_row(param, *record) for param in command.params if (record := param.get_help_record(ctx))]
    return "\n".join(["| flag | |", "|---|---|", *rows])


def flag_row(param: click.Parameter, names: str, description: str) -> str:
    """Return the row of a flag; the values that it can have stand with what it does."""
    if isinstance(param.type, click.Choice) and "[" in names:
        names, description = (
            names.partition(" [")[0],
            f"{description} One of `{'`, `'.join(map(str, param.type.choices))}`.",
        )
    return f"| {as_html(f'`{names}`')} | {as_html(description)} |"


def as_html(text: str) -> str:
    """Return a help text for a cell of a table, where a `|` in Markdown's code would end the cell."""
    safe = html.escape(" ".join(text.split()), quote=False).replace("|", "&#124;")
    marked = re.sub(r"`([^`]+)`", r"<code>\1</code>", safe)
    return re.sub(r"([*_\[\]])", r"\\\1", marked)


def python_page() -> str:
    """Return the page of the public names, whose texts are their docstrings."""
    names = [name for name in svr_async.__all__ if not name.startswith("__")]
    intro = "What `from svr_async import …` has, from the docstrings. How to use it: [From Python](../library.md)."
    parts = [f"::: svr_async.{name}" for name in names]
    return "\n\n".join(["# Public names", WRITTEN, intro, *parts]) + "\n"


def llms_text(made: Mapping[str, str]) -> str:
    """Return llms.txt: a line for each page of the navigation, with its first sentence."""
    lines = ["# svr-async", "", f"> {settings()['site_description']}", ""]
    for title, entry in (pair for section in settings()["nav"] for pair in section.items()):
        pages = [{title: entry}] if isinstance(entry, str) else entry
        lines += [] if isinstance(entry, str) else ["", f"## {title}", ""]
        for name, place in (item for page in pages for item in page.items()):
            text = made.get(place) or (DOCS / place).read_text("utf-8")
            lines.append(f"- [{name}]({place}): {first_sentence(text)}")
    return "\n".join(lines) + "\n"


def first_sentence(text: str) -> str:
    """Return the first sentence below a page's title."""
    shown = re.sub(r"<!--.*?-->\n*|^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    parts = [part for part in shown.split("\n\n")[1:] if part.strip() and not part.startswith(("    ", "#", "|"))]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(parts[0].split()))
    return re.split(r"(?<=[.?])\s", plain)[0]


def settings() -> dict[str, Any]:
    """Return mkdocs.yml."""
    found: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    return found


if __name__ == "__main__":
    main()
