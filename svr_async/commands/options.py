"""Options that commands share: --config, --json, verbosity."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from svr_async.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def _load_config(ctx: click.Context, _: click.Parameter, path: Path | None) -> Path | None:
    """Make the settings of a TOML file the defaults of this command's flags."""
    if path is None:
        return None
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read --config {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
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
        defaults[str(param.name)] = [value] if getattr(param, "multiple", False) and isinstance(value, str) else value
    ctx.default_map = defaults
    return path


def _spellings(param: click.Parameter) -> list[str]:
    """Return how a parameter is spelled in a file: as its flag without the dashes, or by its name."""
    flags = [opt.lstrip("-") for opt in param.opts if opt.startswith("--")]
    return [] if param.name == "config" else [*flags, str(param.name).replace("_", "-")]


config_option = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    callback=_load_config,
    metavar="FILE.toml",
    help="Take flags from a TOML file; flags given here win.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines instead of tables.")


def common(function: F) -> F:
    """Add --config and --json to a command."""
    return config_option(json_option(function))
