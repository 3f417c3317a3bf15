"""Does what would be released install and run? `make release-check` asks, for each Python that is found here.

    python benchmarks/release_check.py                     # Pythons on PATH and those of pyenv
    python benchmarks/release_check.py --python python3.13 --work /somewhere

Wheel and sdist are built and must hold every file that they should. Then each is installed in a fresh environment for
each interpreter, with the newest and with the lowest dependencies that pyproject.toml allows, from wheels alone: a
user may have no compiler. In an empty folder it must tell its version, judge offline, train, fit, judge with the bank
and look itself over; the accuracies must be the same in all cells. Prints one table; exit 1 if anything failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
NOT_RELEASED = (".ci/", ".gitignore")  # of the repository alone
MADE = ("PKG-INFO", "svr_async.egg-info/")  # what building adds to an sdist
PACKAGED = ("svr_async/", "svr_judge.py")  # what a wheel holds
TIMEOUT_S = 900
MISTAKES = ("evl", "eval rubricbench --frobnicate", "train", "eval rubricbench --sample --judge rules --audit 2")
TRAIN = "train world/train.jsonl --judge rules --rounds 1 --limit 160 --out trained -q"
STEPS = (
    "--version",
    "doctor",
    "eval rubricbench --sample --judge rules -q --json",
    "explain --judge rules --prompt Why? --a Because. --b word",
    "sim --seed 1 --write world",
    TRAIN,
    "fit trained/stores/round-1 --out again -q",
    "eval pairs --data world/rubricbench.jsonl --limit 200 --judge rules --bank again/bank -q --json",
    "bank show again/bank --card",
)
OVER_HTTP = "eval pairs --data world/rubricbench.jsonl --limit 60 --bank again/bank --judge {}#sim-strong -q --json"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One row of the table: what was installed where, and how it went."""

    python: str
    artefact: str
    dependencies: str
    accuracies: tuple[str, ...] = ()
    seconds: float = 0.0
    problem: str = ""

    def row(self) -> tuple[str, ...]:
        told = f"{self.seconds:.0f} s", *(self.accuracies or ("–", "–", "–")), self.problem or "ok"
        return self.python, self.artefact, self.dependencies, *told


class FailedStepError(Exception):
    """A command that ended badly: which, and the last line that it said."""


def surroundings(home: Path) -> dict[str, str]:
    """Return the variables of a command: none of this user's settings, and a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SVR_", "PYTHON", "VIRTUAL_"))}
    return {**kept, "HOME": str(home), "UV_CACHE_DIR": str(home / "uv"), "XDG_CACHE_HOME": str(home / "cache")}


@contextmanager
def simulated(program: Path, home: Path) -> Iterator[str]:
    """Serve the simulated endpoint; its base URL."""
    command = [str(program), "sim", "--seed", "1", "--port", "0"]
    with subprocess.Popen(command, env=surroundings(home), stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().partition(" at ")[2].partition(" ")[0]
        finally:
            server.terminate()


def tried(command: Sequence[str | Path], folder: Path, home: Path) -> str:
    """Run a command with nothing of this user's settings, and return what it printed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=surroundings(home),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode or "Traceback" in done.stderr or "SyntaxWarning" in done.stderr:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        raise FailedStepError(f"{' '.join(str(word) for word in command[-8:])}: {done.returncode}, {last[0]}")
    return done.stdout


def refused(command: Sequence[str | Path], folder: Path, home: Path) -> None:
    """Run a command that a user got wrong: exit 2 and a line, never a traceback."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, cwd=folder, env=surroundings(home), capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    if done.returncode != 2 or done.stderr.count("\n") != 1:
        raise FailedStepError(f"{' '.join(words[1:])}: {done.returncode}, {done.stderr.strip()[-200:]!r} is not a line")


def interpreters() -> Iterator[Path]:
    """Yield a Python of each version that is to be had: of PATH, else the newest of pyenv."""
    for version in VERSIONS:
        placed = shutil.which(f"python{version}")
        own = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
        if own or placed:
            yield own[-1] if own else Path(str(placed))


def tracked() -> set[str]:
    """Return the files of the repository."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return set(listed.splitlines())


def missing_files(wheel: Path, sdist: Path) -> list[str]:
    """Return what a wheel or an sdist lacks of the repository's files, and what a wheel has too many of."""
    files = tracked()
    packaged = {name for name in files if name.startswith(PACKAGED)}
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as packed:
        sources = {one.name.partition("/")[2] for one in packed.getmembers() if one.isfile()}
    wanted = {name for name in files if not name.startswith(NOT_RELEASED)}
    told = [f"the wheel lacks {name}" for name in sorted(packaged - held)]
    told += [f"the wheel should not hold {name}" for name in sorted(held - packaged)]
    told += [f"the sdist lacks {name}" for name in sorted(wanted - sources)]
    return told + [f"the sdist should not hold {name}" for name in sorted(sources - files) if not name.startswith(MADE)]


def build(uv: str, work: Path) -> tuple[Path, Path]:
    """Build the sdist, and the wheel from it, as an installer that finds no wheel would."""
    tried([uv, "build", "--quiet", "--out-dir", work / "dist", ROOT], work, work)
    return next((work / "dist").glob("*.whl")), next((work / "dist").glob("*.tar.gz"))


def install(uv: str, python: Path, artefact: Path, dependencies: str, work: Path) -> Path:
    """Make a fresh environment with the artefact in it; return the folder of its programs."""
    place = work / "environment"
    shutil.rmtree(place, ignore_errors=True)
    tried([uv, "venv", "--quiet", "--python", python, place], work, work)
    pip = [uv, "pip", "install", "--quiet", "--python", place / "bin/python"]
    if dependencies == "lowest":
        lowest = ["--resolution", "lowest-direct", "--only-binary", ":all:", "-r", ROOT / "pyproject.toml"]
        tried([*pip, *lowest], work, work)
        tried([*pip, "--no-deps", artefact], work, work)
    else:
        alone = ["--only-binary", ":all:", "--no-binary", "svr-async"] if artefact.suffix == ".gz" else ["--no-build"]
        tried([*pip, *alone, artefact], work, work)
    tried([place / "bin/python", "-W", "error", "-m", "compileall", "-q", *_installed(place)], work, work)
    return place / "bin"


def _installed(place: Path) -> list[Path]:
    return list(place.glob("lib/python*/site-packages/svr_async"))


def run_steps(programs: Path, work: Path) -> tuple[str, ...]:
    """Run all steps in an empty folder and return the accuracies of the evaluations."""
    empty = work / "empty"
    shutil.rmtree(empty, ignore_errors=True)
    shutil.rmtree(work / "cache", ignore_errors=True)
    empty.mkdir()
    told = {step: tried([programs / "svr", *step.split()], empty, work) for step in STEPS}
    for mistake in MISTAKES:
        refused([programs / "svr", *mistake.split()], empty, work)
    with simulated(programs / "svr", work) as address:
        told[OVER_HTTP] = tried([programs / "svr", *OVER_HTTP.format(address).split()], empty, work)
    return tuple(f"{json.loads(text)['accuracy']:.4f}" for step, text in told.items() if step.startswith("eval"))


def look(uv: str, python: Path, artefact: Path, dependencies: str, work: Path) -> Cell:
    """Install and run one cell of the table."""
    kind = "wheel" if artefact.suffix == ".whl" else "sdist"
    version = tried([python, "-c", "import platform; print(platform.python_version())"], work, work).strip()
    cell = {"python": version, "artefact": kind, "dependencies": dependencies}
    started = time.monotonic()
    try:
        accuracies = run_steps(install(uv, python, artefact, dependencies, work), work)
    except (FailedStepError, subprocess.TimeoutExpired) as error:
        return Cell(**cell, seconds=time.monotonic() - started, problem=str(error))
    return Cell(**cell, accuracies=accuracies, seconds=time.monotonic() - started)


def table(cells: Sequence[Cell]) -> str:
    """Return the cells as a table of Markdown."""
    rows = [("Python", "artefact", "dependencies", "took", "sample", "bank", "over HTTP", "result")]
    rows += [cell.row() for cell in cells]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    rows.insert(1, tuple("-" * width for width in widths))
    return "\n".join(f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows)


def problems(cells: Sequence[Cell], lacking: Sequence[str]) -> list[str]:
    """Return what stands against a release."""
    told = [
        *lacking,
        *(f"{cell.python}, {cell.artefact}, {cell.dependencies}: failed" for cell in cells if cell.problem),
    ]
    found = {cell.accuracies for cell in cells if cell.accuracies}
    told += [f"the accuracies differ: {sorted(found)}"] if len(found) > 1 else []
    absent = [version for version in VERSIONS if not any(cell.python.startswith(f"{version}.") for cell in cells)]
    return told + [f"Python {version} is not installed: not tried" for version in absent]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", type=Path, help="try this interpreter; may be given again")
    parser.add_argument("--work", type=Path, help="a folder to work in, which is kept")
    given = parser.parse_args()
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if uv is None:
        parser.error("uv is not installed: pip install uv")
    with tempfile.TemporaryDirectory() as passing:
        work = (given.work or Path(passing)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        wheel, sdist = build(uv, work)
        cells = []
        for python in given.python or interpreters():
            for artefact, dependencies in ((wheel, "newest"), (wheel, "lowest"), (sdist, "newest"), (sdist, "lowest")):
                cells.append(look(uv, python, artefact, dependencies, work))
                print(" · ".join(cells[-1].row()), file=sys.stderr, flush=True)
    found = problems(cells, missing_files(wheel, sdist))
    print(table(cells), *found, sep="\n")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
