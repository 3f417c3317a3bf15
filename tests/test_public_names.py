"""The names that others import exist, are documented, and are what `__all__` says."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
import tomllib
import traceback
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest

import svr_async
from svr_async import errors

ROOT = Path(__file__).parents[1]
NEEDS = {  # modules that only their own program imports, and the package that it comes in
    "svr_async.serving.hooks.inspect_ai": "inspect_ai",
    "svr_async.serving.hooks.verifiers": "verifiers",
    "svr_async.serving.hooks.verl_manager": "verl",
}
MODULES = sorted(module.name for module in pkgutil.walk_packages([str(ROOT / "svr_async")], "svr_async."))


def test_what_the_package_offers_is_there() -> None:
    """Every name in `__all__` can be had, and the version is that of the project file."""
    for name in svr_async.__all__:
        assert getattr(svr_async, name) is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert svr_async.__version__ == project["version"]


def test_the_installed_commands_can_be_called() -> None:
    """`svr` and `svr-eval` of the project file point to functions, as their scripts import them."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"svr", "svr-eval"} <= set(scripts)
    for target in scripts.values():
        module, _, name = target.partition(":")
        code = f"from {module} import {name}; assert callable({name})"  # a process of its own, as a script is
        subprocess.run([sys.executable, "-c", code], check=True)
    installed = {entry.name: entry.value for entry in entry_points(group="console_scripts")}
    assert "svr" in installed
    assert all(installed.get(name, target) == target for name, target in scripts.items())


@pytest.mark.parametrize("name", MODULES)
def test_public_names_are_documented_and_honest(name: str) -> None:
    """Each public function and class of a module has a docstring; `__all__` names only what is there."""
    package = NEEDS.get(name)
    if package is not None and find_spec(package) is None:
        with pytest.raises(ModuleNotFoundError) as missing:
            importlib.import_module(name)
        assert str(missing.value.name).split(".")[0] == package  # nothing else may be why it cannot be imported
        pytest.skip(f"{package} is not installed")
    module = importlib.import_module(name)
    for listed in getattr(module, "__all__", ()):
        assert hasattr(module, listed), listed
    for attribute, value in vars(module).items():
        own = getattr(value, "__module__", None) == name and not attribute.startswith("_")
        if own and (inspect.isfunction(value) or inspect.isclass(value)):
            assert (value.__doc__ or "").strip(), f"{name}.{attribute}"
            assert value.__doc__ != "", f"{name}.{attribute}"


def exit_codes(error: type[errors.SvrError]) -> dict[str, int]:
    """Return the exit code of an error and of all below it."""
    below = [exit_codes(child) for child in error.__subclasses__() if child.__module__ == errors.__name__]
    return {error.__name__: error.exit_code} | {name: code for part in below for name, code in part.items()}


def test_every_error_has_its_documented_exit_code() -> None:
    """The tree drawn in the module's docstring is the tree that is there."""
    assert exit_codes(errors.SvrError) == {
        "SvrError": 1, "UsageError": 2, "DataError": 2, "ConfigError": 2, "CoverageError": 3, "RefusedError": 4,
        "AuthError": 4, "QuotaError": 4, "ModelError": 4, "BudgetError": 4, "StorageError": 5, "EndpointDownError": 6,
        "ArtefactError": 7, "DegenerateFitError": 8, "GateError": 9,
    }  # fmt: skip
    for name in exit_codes(errors.SvrError):
        assert name in (errors.__doc__ or "")


def test_an_error_is_one_line() -> None:
    """Message and hint are joined, and line breaks in either do not survive."""
    assert errors.SvrError("a\nb", hint="c\n d").one_line() == "a b — c d"
    assert errors.SvrError("a").one_line() == "a"


def test_a_traceback_shows_how_to_mend_an_error() -> None:
    """The hint is a note of the exception, below the message; an error without one has no note."""
    shown = "".join(traceback.format_exception(errors.UsageError("it is no run", hint="give a folder")))
    assert shown.endswith("UsageError: it is no run\nTo fix it: give a folder\n")
    assert not hasattr(errors.UsageError("it is no run"), "__notes__")
