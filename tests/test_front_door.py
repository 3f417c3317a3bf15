"""`from svr_async import …`: the public names, loaded when they are used, known to type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from rig import environment

import svr_async
from svr_async import errors
from svr_async.core.rubric import Check
from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring.bank import BankRubric, RubricBank

ROOT = Path(__file__).parents[1]
HEAVY = ("aiohttp", "numpy", "jax", "asyncio", "orjson", "diskcache", "pyarrow", "scipy", "huggingface_hub")


def run_python(code: str, folder: Path) -> str:
    """Run code in a separate process and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=folder, env=environment(),
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_is_cheap_and_reads_nothing(tmp_path: Path) -> None:
    """`import svr_async` loads no heavy library, opens no file but modules, and lists its names all the same."""
    code = (
        "import sys, pathlib; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "import svr_async; names = dir(svr_async)\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))\n"
        "print([name for name in opened if not name.endswith(('.py', '.pyc'))])\n"
        "print(sorted(set(svr_async.__all__) - set(names)))"
    )
    assert run_python(code, tmp_path).split("\n")[:3] == ["[]", "[]", "[]"]
    assert list(tmp_path.iterdir()) == []


def test_judging_offline_loads_only_what_it_needs(tmp_path: Path) -> None:
    """With the rules judge, neither an endpoint's nor a fit's libraries are loaded, nor those of a screen."""
    make_bank().save(tmp_path / "bank")
    code = (
        "import sys; from svr_async import Bank, Engine, Judge, evaluate, rank, score_pair\n"
        "pair, bank = ('q', 'Blue.', 'A very long answer to it all'), Bank.load('bank')\n"
        "print(score_pair(*pair, bank=bank, engine='rules').winner)\n"
        "print(sorted({'aiohttp', 'jax', 'sklearn', 'pyarrow'} & set(sys.modules)))"
    )
    assert run_python(code, tmp_path).split() == ["A", "[]"]


def test_an_offline_evaluation_loads_only_its_own_parts(tmp_path: Path) -> None:
    """With the rules judge a program gets neither an endpoint's nor a fit's libraries, nor those of a screen."""
    code = (
        "import sys; from svr_async import evaluate\n"
        "print(evaluate(benchmark='rubricbench', sample=True, judge='rules').complete)\n"
        "print(sorted({'aiohttp', 'jax', 'sklearn', 'pyarrow', 'click', 'rich'} & set(sys.modules)))"
    )
    assert run_python(code, tmp_path).split() == ["True", "[]"]


def test_each_name_is_loaded_once_and_others_are_not_there() -> None:
    """A name is kept after its first use; a name that does not exist is an AttributeError that says so."""
    for name in svr_async.__all__:
        assert getattr(svr_async, name) is getattr(svr_async, name)
    assert issubclass(svr_async.Bank, RubricBank)
    with pytest.raises(AttributeError, match="no attribute 'Banc'"):
        _ = svr_async.Banc  # type: ignore[attr-defined]


def test_type_checkers_see_the_same_names() -> None:
    """Names under TYPE_CHECKING are those that are loaded, from the same modules."""
    tree = ast.parse((ROOT / "svr_async" / "__init__.py").read_text("utf-8"))
    names = {
        alias.asname or alias.name: (str(node.module).removeprefix("svr_async."), alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("svr_async.")
        for alias in node.names
    }
    assert names == svr_async._HOMES
    assert {*names, "__version__"} == set(svr_async.__all__)


def test_what_the_package_offers_is_there() -> None:
    """Every name in `__all__` can be had, and the version is that of the project file."""
    for name in svr_async.__all__:
        assert getattr(svr_async, name) is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert svr_async.__version__ == project["version"]


def test_the_installed_commands_can_be_called(tmp_path: Path) -> None:
    """`svr` and `svr-eval` of the project file point to functions, as their scripts import them."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"svr", "svr-eval"} <= set(scripts)
    places = [target.partition(":") for target in scripts.values()]
    run_python(
        "; ".join(f"from {module} import {name}; assert callable({name})" for module, _, name in places), tmp_path
    )
    installed = {entry.name: entry.value for entry in entry_points(group="console_scripts")}
    assert "svr" in installed
    assert all(installed.get(name, target) == target for name, target in scripts.items())


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


def make_bank() -> RubricBank:
    """Return a bank that the rules judge can decide."""
    checks = (Check.of("max_words", n=5), Check.of("bullet_list"))
    rubrics = tuple(BankRubric(rubric=rubric_for(check), weight=1.0 - n / 2) for n, check in enumerate(checks))
    return RubricBank(rubrics=rubrics, name="shown in the docs")
