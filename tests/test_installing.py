"""Judging alone installs without what only training needs, and the container's recipe names files that there are."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from rig import run_python

from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.version import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LISTED = (ROOT / "requirements-judge.txt").read_text("utf-8").splitlines()
NEEDED = [line for line in LISTED if not line.startswith("#")]
LEFT_OUT = sorted(set(PROJECT["dependencies"]) - set(NEEDED))
BLOCKED = [re.split("[<>=]", one)[0].replace("scikit-learn", "sklearn") for one in LEFT_OUT]
DOCKERFILE = (ROOT / "Dockerfile").read_text("utf-8")
WITHOUT = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from svr_async.commands.main import run, svr
codes = [run(svr, "svr", command.split()) for command in sys.argv[1:]]
print("codes", codes)
"""


def test_the_short_list_is_a_part_of_the_whole_one() -> None:
    """Each line of requirements-judge.txt is a dependency of the package, with the same bound."""
    assert set(NEEDED) <= set(PROJECT["dependencies"])
    assert {"jax>=0.4.34", "optax>=0.2.3", "pyarrow>=15", "scikit-learn>=1.4"} <= set(LEFT_OUT)


def test_judging_needs_no_more_than_the_short_list(tmp_path: Path) -> None:
    """Without the rest, evaluating with a bank, explaining, comparing, reporting and the doctor work."""
    RubricBank(rubrics=(BankRubric(rubric=Rubric(text="The response has at most 20 words.")),)).save(tmp_path / "bank")
    done = run_python(
        WITHOUT,
        "eval rubricbench --sample --judge rules --limit 3 --bank bank --min-coverage 0 -q --out one",
        "eval rubricbench --sample --judge rules --limit 3 -q --out two",
        "explain two", "compare one two", "report two", "bank show bank", "doctor",
        cwd=tmp_path,
    )  # fmt: skip
    assert "codes [0, 0, 0, 0, 0, 0, 0]" in done.stdout, done.stderr


def test_what_needs_more_says_so_in_a_line(tmp_path: Path) -> None:
    """A fit without JAX ends with 2 and names the missing extra and its command."""
    done = run_python(WITHOUT, "fit store --out bank", cwd=tmp_path)
    assert "codes [2]" in done.stdout
    assert re.fullmatch(r"svr: \w+ is not installed — .* pip install svr-async .*\n", done.stderr)


def test_the_container_copies_what_there_is_and_runs_without_rights() -> None:
    """Every source of COPY exists and is let through by .dockerignore; the user is set before the entry point."""
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    copied = [name for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.MULTILINE) for name in line.split()]
    assert {"pyproject.toml", "setup.cfg", "svr_async", "requirements-judge.txt"} <= set(copied)
    assert {PROJECT["readme"], *PROJECT["license-files"]} <= set(copied)
    for name in copied:
        assert (ROOT / name).exists()
        assert f"!{name}" in ignored
    assert "USER svr" in DOCKERFILE.partition("ENTRYPOINT")[0]
    assert "USER root" not in DOCKERFILE


def test_what_to_cite_is_this_version() -> None:
    """CITATION.cff has the package's version and licence, and the paper by its title and number."""
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"version: {__version__}\n" in text
    assert f"license: {PROJECT['license']}\n" in text
    assert "arXiv:2606.08077" in text
    assert text.startswith("cff-version: 1.2.0\n")
