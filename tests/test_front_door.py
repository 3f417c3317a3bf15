"""`from svr_async import …`: the public names, loaded when they are used, known to type checkers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from rig import environment

import svr_async
from svr_async.core.rubric import Check
from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring.bank import BankRubric, RubricBank

ROOT = Path(__file__).parents[1]
HEAVY = ("aiohttp", "numpy", "jax", "asyncio", "orjson", "diskcache", "pyarrow", "scipy", "huggingface_hub")


def run_python(code: str, folder: Path) -> str:
    """Run code in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, cwd=folder, env=environment(),
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_is_cheap_and_reads_nothing(tmp_path: Path) -> None:
    """`import svr_async` loads none of the libraries, opens no file but modules, and lists its names all the same."""
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


def test_the_front_door_loads_neither_jax_nor_aiohttp_to_judge_offline(tmp_path: Path) -> None:
    """All names can be had, and a pair judged by the rules judge, without an endpoint's or a fit's libraries."""
    make_bank().save(tmp_path / "bank")
    code = (
        "import sys; from svr_async import Bank, Engine, Judge, rank, score_pair, score_pair\n"
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
    """What stands under TYPE_CHECKING is what is loaded, from the same modules under the same names."""
    tree = ast.parse((ROOT / "svr_async" / "__init__.py").read_text("utf-8"))
    told = {
        alias.asname or alias.name: (str(node.module).removeprefix("svr_async."), alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("svr_async.")
        for alias in node.names
    }
    assert told == svr_async._HOMES
    assert {*told, "__version__"} == set(svr_async.__all__)


def make_bank() -> RubricBank:
    """Return a bank that the rules judge can decide."""
    checks = (Check.of("max_words", n=5), Check.of("bullet_list"))
    rubrics = tuple(BankRubric(rubric=rubric_for(check), weight=1.0 - n / 2) for n, check in enumerate(checks))
    return RubricBank(rubrics=rubrics, name="shown in the docs")
