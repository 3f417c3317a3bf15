"""What commands share: --config, --json, the options of those that ask a judge, and how help is shown."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from svr_async.core.files import read_plain
from svr_async.errors import ConfigError, UsageError
from svr_async.judges.limits import FLAGS, JudgeLimits
from svr_async.tracking.registry import NAMES, require_installed

F = TypeVar("F", bound=Callable[..., Any])
PATH = click.Path(path_type=Path)
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
MOST_LICENCE_CHARS = 4_096  # as long as a bank's texts may be


Groups = Mapping[str, Sequence[str]]

USUAL: Groups = {
    "How a pair is judged": ("option", "top_k", "rephrase", "order", "audit", "audit_below", "tie_credit"),
    "Several judges": ("jury", "jury_rule", "escalate_to", "escalate_below", "report"),
    "How the bank is learned": (
        "preset", "publish", "author", "pool", "pool_size", "rubrics_per_call", "ablate", "decontaminate",
        "train_limit", "learning_curve", "licence",
    ),
    "Reading the data": ("adapter", "benchmark", "domain", "lenient", "columns", "label_map"),
    "The endpoint": (
        "base_url", "judges", "concurrency", "rpm", "tpm", "timeout", "give_up_after", "max_calls", "price",
        "strict_model", "prompts", "shard", "ray", "cache",
    ),
    "The run": ("offline", "resume", "retry_errors", "min_coverage", "force", "replace", "seed"),
    "Output and settings": ("quiet", "verbose", "as_json", "config"),
    "Watching": ("track", "log_json", "log_level", "metrics_port", "otel"),
}  # fmt: skip


class GroupedCommand(click.Command):
    """A command whose help shows its flags in groups; those that no group names come first, under Options.

    `groups` names the flags of each group by their parameter; a group without a flag of this command is left out.
    """

    def __init__(self, *args: Any, groups: Groups = USUAL, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, group by group."""
        for title, rows in self.sections(ctx):
            with formatter.section(title):
                formatter.write_dl([row for _, row in rows])

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, tuple[str, str]]]]]:
        """Yield each group's title and its flags: (parameter, (how it is written, its help))."""
        flags = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        shown = [(str(one.name), row) for one in flags if (row := one.get_help_record(ctx)) is not None]
        grouped = {name for names in self.groups.values() for name in names}
        yield "Options", [row for row in shown if row[0] not in grouped]
        for title, names in self.groups.items():
            if rows := [row for row in shown if row[0] in names]:
                yield title, rows


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Return what adds several options to a command, in this order."""

    def add(function: F) -> F:
        """Add them."""
        for option in reversed(options):
            function = option(function)
        return function

    return add


def _load_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Make the settings of a TOML file the defaults of this command's flags."""
    if path is None:
        return None
    try:
        values = tomllib.loads(read_plain(path).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"--config {path} is not valid TOML: {error}") from error
    known = {spelling: param for param in ctx.command.params for spelling in _spellings(param)}
    defaults = dict(ctx.default_map or {})
    for key, value in values.items():
        name = key.replace("_", "-")
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"see {ctx.command_path} --help"
            raise ConfigError(f"--config {path} has the unknown key {key!r}", hint=hint)
        param = known[name]
        if not _is_setting(value, param):
            raise ConfigError(f"--config {path}: {key} is {type(value).__name__}, which its flag cannot be")
        defaults[str(param.name)] = [value] if getattr(param, "multiple", False) and isinstance(value, str) else value
    ctx.default_map = defaults
    return path


def _is_setting(value: Any, param: click.Parameter) -> bool:
    """Whether a value of TOML is one that a flag takes: plain, or a list of such where the flag takes several."""
    if isinstance(value, list) and (getattr(param, "multiple", False) or param.nargs != 1):
        return all(isinstance(one, str | int | float) for one in value)
    return isinstance(value, str | int | float)


def _spellings(param: click.Parameter) -> list[str]:
    """Return how a parameter is spelled in a file: as its flag without the dashes, or by its name."""
    flags = [opt.lstrip("-") for opt in param.opts if opt.startswith("--")]
    return [] if param.name == "config" else [*flags, str(param.name).replace("_", "-")]


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,  # it sets what other flags are
    callback=_load_config,
    metavar="FILE.toml",
    help="Take flags from a TOML file; flags given here win.",
)
seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Seed of what is drawn."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of tables.")


common = together(config_option, json_option)


def _joined(_: click.Context, __: click.Parameter, urls: tuple[str, ...]) -> str:
    """Write several addresses as one text, as profiles do."""
    return ",".join(urls)


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
    """Refuse, before anything is computed, a text that no bank can hold."""
    if len(text) > MOST_LICENCE_CHARS or not text.isprintable():
        raise UsageError(
            f"--license has {len(text):,} characters, or some that cannot be printed",
            hint=f"name it in a line of at most {MOST_LICENCE_CHARS:,}",
        )
    return text


base_url_option = click.option(
    "--base-url",
    multiple=True,
    callback=_joined,
    metavar="URL",
    help="Where the endpoint is, over the profile's. Repeat it for several that serve the same model.",
)
judges_option = click.option(
    "--judges",
    type=PATH,
    is_eager=True,
    expose_value=False,
    callback=_set_judges,
    metavar="FILE.toml",
    help="Your judge profiles. Default: $SVR_JUDGES, or judges.toml in your configuration folder.",
)
cache_option = click.option(
    "--cache",
    callback=_cache_place,
    show_default="$SVR_CACHE, ./cache/replies if it exists, or your cache folder",
    metavar="DIR|redis://…",
    help="Where replies are stored.",
)
concurrency_option = click.option(
    "--concurrency",
    default="auto",
    show_default=True,
    metavar="auto|N",
    help="Maximum parallel requests; auto adapts.",
)
price_option = click.option(
    "--price",
    metavar="IN/OUT",
    help="US dollars per million tokens, over the profile's; IN/CACHED/OUT if cached input costs less.",
)
budget_option = click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="Stop before spending more.")
max_calls_option = click.option(
    "--max-calls", type=click.IntRange(min=0), metavar="N", help="Stop before sending more calls."
)
prompts_option = click.option(
    "--prompts",
    type=PATH,
    metavar="paper|DIR",
    help="Prompt templates: the paper's layouts, or a folder.",
)
limited = together(  # --base-url and all limits of calls
    base_url_option,
    judges_option,
    concurrency_option,
    click.option("--rpm", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Maximum requests a minute."),
    click.option("--tpm", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Maximum tokens a minute."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0.1),
        default=600.0,
        show_default=True,
        metavar="SECONDS",
        help="Seconds for one call.",
    ),
    click.option(
        "--give-up-after",
        type=click.FloatRange(min=1),
        default=1800.0,
        show_default=True,
        metavar="SECONDS",
        help="Stop after this long without any success.",
    ),
    budget_option,
    price_option,
    max_calls_option,
    click.option("--strict-model", is_flag=True, help="Exit 4 if another model than the judge's answers."),
    prompts_option,
    cache_option,
)
few_limits = together(  # --base-url and the limits of a command with few calls
    base_url_option, concurrency_option, budget_option, max_calls_option, cache_option
)


def with_limits(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return a command's flags with those of how a judge may be asked as one record, `limits`."""
    own = {one.name for one in fields(JudgeLimits)} | set(FLAGS)
    rest = {name: value for name, value in flags.items() if name not in own}
    return rest | {"limits": JudgeLimits.from_flags(flags)}


def known_of(record: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a record of settings has a field for; others, as how to log, do not matter to it."""
    names = {one.name for one in fields(record)}
    return {name: value for name, value in values.items() if name in names}


def given_flags(context: click.Context) -> frozenset[str]:
    """Return the names of the flags that were given: on the command line, as a variable or in a file."""
    default = click.core.ParameterSource.DEFAULT
    return frozenset(name for name in context.params if context.get_parameter_source(name) is not default)


reading = together(  # how pairs are read
    click.option("--lenient", is_flag=True, help="Leave out rows that break the schema, and count them."),
    click.option(
        "--columns",
        default="",
        metavar="NAME=COLUMN,…",
        help="Which columns hold what, as prompt=question,chosen=best,rejected=worst. Default: by their names.",
    ),
    click.option(
        "--label-map",
        default="",
        metavar="VALUE=a,…",
        help="What the values of a label mean, as 1=a,2=b,0=tie or '<0=a,>0=b'. Default: by its name and values.",
    ),
)


def scheduled(default: str, choices: Sequence[str] = ("all", "circle", "anchor")) -> Callable[[F], F]:
    """Add --schedule to a command that compares several responses."""
    return click.option(
        "--schedule",
        type=click.Choice(choices),
        default=default,
        show_default=True,
        help="Which responses are compared: all pairs, circle N pairs, anchor N − 1.",
    )


limit_option = click.option("--limit", metavar="N|A-B", help="The first N pairs, or pairs A to B.")
judge_option = click.option(
    "--judge", default="", metavar="J", help="Who judges: a judge of `svr judges`, URL#model, rules."
)
top_k_option = click.option(
    "--top-k", type=click.IntRange(min=1), metavar="N", help="Rubrics used for a prompt. Default: the bank's."
)
dry_run_option = click.option("--dry-run", is_flag=True, help="Count calls, tokens, price and time; send nothing.")
offline_option = click.option("--offline", is_flag=True, help="Use the cache only; open no socket.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="No progress.")
learning_curve_option = click.option(
    "--learning-curve",
    is_flag=True,
    help="Fit also on an eighth, a quarter and a half of the pairs, and show what more would bring. No further calls.",
)
license_option = click.option(
    "--license", "licence", default="", metavar="TEXT", callback=_licence, help="The licence of the bank, for its card."
)
pool_option = click.option(
    "--pool",
    type=click.Choice(["cross", "own", "all"]),
    help="Rubrics judged per pair. Default: cross; all for the rules judge, which is free.",
)
pool_size_option = click.option(
    "--pool-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rubrics that a pair is judged on in a round. Default: 18; up to 54 where there are fewer than 2,000 pairs.",
)

retry_errors_option = click.option(
    "--retry-errors", is_flag=True, help="Ask again what failed for good in an earlier run."
)
min_coverage_option = click.option(
    "--min-coverage",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    metavar="0..1",
    help="Exit 3 when a smaller share gets an answer.",
)
shard_option = click.option(
    "--shard",
    metavar="I/N",
    help="Judge shard I of N: this machine's part of the pairs, rates and caps (docs/scale.md).",
)
ray_option = click.option(
    "--ray",
    metavar="ADDRESS",
    help="Send from the nodes of a Ray cluster: HOST:PORT, auto, or local to start one here.",
)
track_option = click.option(
    "--track",
    type=click.Choice(NAMES),
    multiple=True,
    callback=lambda _, __, names: require_installed(names),
    help="Hand the run to this tracker when it has ended; may be given again (docs/tracking.md).",
)
per_call_option = click.option(
    "--rubrics-per-call",
    type=click.IntRange(min=1),
    metavar="N",
    help="Rubrics of a pool asked at a time. Default: 9; as many as a decision judge takes; all for the rules judge.",
)


stage_asking = together(  # the argument and the options that training and its stages share
    click.argument("pairs", type=PATH, metavar="PAIRS"),
    click.option("--format", "adapter", default="pairs", show_default=True, metavar="NAME", help="Layout of PAIRS."),
    judge_option,
    limit_option,
    click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, metavar="N", help="Seed."),
    dry_run_option,
    quiet_option,
)
asking = together(stage_asking, reading, min_coverage_option)
