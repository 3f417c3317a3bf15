"""Options that commands share, each declared once; help in groups; and --config."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from svr_async.core.files import read_plain
from svr_async.errors import ConfigError, UsageError, did_you_mean
from svr_async.judges.limits import FLAGS, JudgeLimits
from svr_async.observability.trackers import TRACKERS, require_installed

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[F], F]
PATH = click.Path(path_type=Path)
FOLDER = click.Path(path_type=Path, file_okay=False)
COUNT = click.IntRange(min=1)
SEED = click.IntRange(min=0)
SHARE = click.FloatRange(0, 1)
AMOUNT = click.FloatRange(min=0)
RATE = click.FloatRange(min=0, min_open=True)
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
MOST_LICENCE_CHARS = 4_096  # the limit of a bank's texts


def option(spec: str, help: str = "", *, name: str = "", **settings: Any) -> Callable[[F], F]:  # noqa: A002
    """Return `click.option`; `spec` is written as in help, and a default is shown if there is one.

    Example: `option("--rpm N", "Maximum requests a minute.", type=RATE)`.
    """
    words = spec.split()
    names = [word for word in words if word.startswith("-")] + ([name] if name else [])
    settings.setdefault("metavar", " ".join(word for word in words if not word.startswith("-")) or None)
    settings.setdefault("show_default", bool(settings.get("default")) and not settings.get("is_flag"))
    return click.option(*names, help=help, **settings)


def flag(spec: str, help: str = "", **settings: Any) -> Callable[[F], F]:  # noqa: A002
    """Return an option without a value."""
    return option(spec, help, is_flag=True, **settings)


def together(*options: Callable[[F], F], group: str = "") -> Callable[[F], F]:
    """Return a decorator that adds options in this order, under the help heading `group`."""

    def add(function: F) -> F:
        """Add the options; one that already has a group keeps it."""
        before = len(getattr(function, "__click_params__", ()))
        for one in reversed(options):
            function = one(function)
        for param in function.__click_params__[before:] if group else ():  # type: ignore[attr-defined]  # Click's list
            param.group = getattr(param, "group", group)
        return function

    return add


class GroupedCommand(click.Command):
    """A command whose help shows its options by group, those without one first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, group by group."""
        for title, rows in self.sections(ctx):
            with formatter.section(title):
                formatter.write_dl([row for _, row in rows])

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, tuple[str, str]]]]]:
        """Yield each group's title and its options: (parameter, (how it is written, its help))."""
        groups: dict[str, list[tuple[str, tuple[str, str]]]] = {"Options": []}
        for param in self.get_params(ctx):
            if isinstance(param, click.Option) and (row := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "group", "Options"), []).append((str(param.name), row))
        yield from groups.items()


def _load_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make the settings of a TOML file the defaults of this command's flags."""
    if path is None:
        return
    try:
        values = tomllib.loads(read_plain(path).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read --config '{path}': {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--config {path} is not valid TOML: {error}") from error
    known = {spelling: param for param in ctx.command.params for spelling in _spellings(param)}
    defaults = dict(ctx.default_map or {})
    for key, value in values.items():
        if isinstance(value, dict):
            hint = f"keys stand at the top of the file: remove the line [{key}]"
            raise ConfigError(f"--config {path} has the table [{key}]", hint=hint)
        name = key.replace("_", "-")
        if name not in known:
            hint = did_you_mean(name, known) or f"see {ctx.command_path} --help"
            raise ConfigError(f"--config {path} has the unknown key {key!r}", hint=hint)
        param = known[name]
        several = getattr(param, "multiple", False) or param.nargs != 1
        values_of_key = value if isinstance(value, list) and several else [value]
        if not all(isinstance(one, str | int | float) for one in values_of_key):
            raise ConfigError(f"--config {path}: {key} cannot be {type(value).__name__}")
        defaults[str(param.name)] = values_of_key if several else value
    ctx.default_map = defaults


def _spellings(param: click.Parameter) -> list[str]:
    """Return how a parameter is spelled in a file: as its flag without the dashes, or by its name."""
    flags = [opt.lstrip("-") for opt in param.opts if opt.startswith("--")]
    return [] if param.name == "config" else [*flags, str(param.name).replace("_", "-")]


def _set_judges(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Name the file of judge profiles for this command, and for the processes that it starts."""
    if path is not None:
        before = os.environ.get("SVR_JUDGES", "")
        os.environ["SVR_JUDGES"] = str(path.absolute())
        ctx.call_on_close(lambda: os.environ.update(SVR_JUDGES=before))


def _cache_place(_: click.Context, __: click.Parameter, text: str | None) -> Path | str:
    """Return the folder or Redis URL of the cache."""
    from svr_async.engine.cache import cache_place, place_of  # slow to import: not for `svr --help`

    return place_of(text) if text else cache_place()


def _licence(_: click.Context, __: click.Parameter, text: str) -> str:
    """Raise UsageError for a licence that a bank cannot store."""
    if len(text) > MOST_LICENCE_CHARS or not text.isprintable():
        message = f"--license has {len(text):,} characters, or some that cannot be printed"
        raise UsageError(message, hint=f"name it in a line of at most {MOST_LICENCE_CHARS:,}")
    return text


def with_limits(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's flags, those that limit a judge's calls as one record, `limits`."""
    own = {one.name for one in fields(JudgeLimits)} | set(FLAGS)
    rest = {name: value for name, value in flags.items() if name not in own}
    return rest | {"limits": JudgeLimits.from_flags(flags)}


def known_of(record: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a record of settings has a field for."""
    names = {one.name for one in fields(record)}
    return {name: value for name, value in values.items() if name in names}


def given_flags(context: click.Context) -> frozenset[str]:
    """Return the names of the flags that were given: on the command line, as a variable or in a file."""
    default = click.core.ParameterSource.DEFAULT
    return frozenset(name for name in context.params if context.get_parameter_source(name) is not default)


json = flag("--json", "Print JSON for machines.", name="as_json")
config = option(
    "--config FILE.toml",
    "Take flags from a TOML file; flags given here win.",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_load_config,
)
quiet = flag("-q --quiet", "No progress.")
common = together(config, json, group="Output and settings")

judge = option("--judge J", "Who judges: a judge of `svr judges`, URL#model, rules.", default="")
bank = option("--bank BANK", "Judge with this bank: a folder, or hf:user/name[@revision].")
top_k = option("--top-k N", "Rubrics used for a prompt. Default: the bank's.", type=COUNT)
limit = option("--limit N|A-B", "The first N pairs, or pairs A to B.")
dry_run = flag("--dry-run", "Count calls, tokens, price and time; send nothing.")
budget = option("--budget USD", "Stop before spending more.", type=AMOUNT)
preset = option(
    "--preset default|paper",
    "With paper, the paper's prompts, training and fit (docs/reproduction.md).",
    type=click.Choice(["default", "paper"]),
    default="default",
)
layout = option("--format NAME", "Layout of the pairs.", name="adapter", default="pairs")
moved_data = option("--data PATH", "The run's data, if it has moved.", type=PATH)
base_url = option(
    "--base-url URL",
    "Address of the endpoint, instead of the profile's; repeat it for several servers of one model.",
    multiple=True,
    callback=lambda _, __, urls: ",".join(urls),
)
judges = option(
    "--judges FILE.toml",
    "Your judge profiles. Default: $SVR_JUDGES, or judges.toml in your configuration folder.",
    type=PATH,
    is_eager=True,
    expose_value=False,
    callback=_set_judges,
)
cache = option(
    "--cache DIR|redis://…",
    "Where replies are stored. Default: $SVR_CACHE, ./cache/replies if it exists, or your cache folder.",
    callback=_cache_place,
)
concurrency = option("--concurrency auto|N", "Maximum parallel requests; auto adapts.", default="auto")
price = option(
    "--price IN/OUT",
    "US dollars per million tokens, instead of the profile's; IN/CACHED/OUT if cached input costs less.",
)
max_calls = option("--max-calls N", "Stop before sending more calls.", type=click.IntRange(min=0))
retry_errors = flag("--retry-errors", "Send requests again that failed for good in an earlier run.")
min_coverage = option("--min-coverage 0..1", "Exit 3 if a smaller share gets an answer.", type=SHARE, default=1.0)
shard = option("--shard I/N", "Judge shard I of N on this machine (docs/scale.md).")
ray = option("--ray ADDRESS", "Send from a Ray cluster: HOST:PORT, auto, or local.")
few_limits = together(base_url, concurrency, budget, max_calls, cache, group="The endpoint")
limited = together(
    budget,
    together(
        base_url,
        judges,
        concurrency,
        option("--rpm N", "Maximum requests a minute.", type=RATE),
        option("--tpm N", "Maximum tokens a minute.", type=RATE),
        option("--timeout SECONDS", "Limit of one call.", type=click.FloatRange(0.1), default=600.0),
        option(
            "--give-up-after SECONDS",
            "Stop after this long without any success.",
            type=click.FloatRange(1),
            default=1800.0,
        ),
        price,
        max_calls,
        flag("--strict-model", "Exit 4 if another model answers."),
        option("--prompts paper|DIR", "Prompt templates: the paper's, or a folder.", type=PATH),
        cache,
        shard,
        ray,
        group="The endpoint",
    ),
    together(retry_errors, min_coverage, group="The run"),
)
reading = together(
    flag("--lenient", "Leave out rows that break the schema, and count them."),
    option(
        "--columns NAME=COLUMN,…",
        "Names of the columns, as prompt=question,chosen=best. Default: the usual names.",
        default="",
    ),
    option(
        "--label-map VALUE=a,…",
        "Meaning of a label's values, as 1=a,2=b,0=tie or '<0=a,>0=b'. Default: by its name and values.",
        default="",
    ),
    group="Reading the data",
)


learning_curve = flag(
    "--learning-curve", "Also fit on fractions of the pairs, to show the benefit of more pairs; no calls."
)
licence = option("--license TEXT", "Licence of the bank, for its card.", name="licence", default="", callback=_licence)
pool_options = together(
    option(
        "--pool",
        "Rubrics judged per pair. Default: cross; all for the rules judge.",
        type=click.Choice(["cross", "own", "all"]),
    ),
    option(
        "--pool-size N",
        "Rubrics judged per pair in a round. Default: 18; up to 54 with fewer than 2,000 pairs.",
        type=COUNT,
    ),
    group="How the bank is learned",
)
track = together(
    option(
        "--track",
        "Log the ended run to this tracker; repeatable (docs/observability.md).",
        type=click.Choice(TRACKERS),
        multiple=True,
        callback=lambda _, __, names: require_installed(names),
    ),
    group="Watching",
)
pairs_options = together(  # the argument and the options that training and its stages share
    click.argument("pairs", type=PATH, metavar="PAIRS"),
    judge,
    limit,
    dry_run,
    together(layout, group="Reading the data"),
    together(option("--seed N", "Seed.", type=SEED, default=42), group="The run"),
    together(quiet, group="Output and settings"),
)
