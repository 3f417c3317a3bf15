"""What a newcomer types into a shell, in a fresh checkout, as it is printed: installing, `make demo`, the tutorial."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import FRESH, ROOT, pages
from printed import FENCE, HIDDEN
from shell import steps

AFTER = re.compile(rf'<!-- skip: next without\("{FRESH}"\) -->\s*```sh\n(.*?)^```', re.DOTALL | re.MULTILINE)
TUTORIAL = ROOT / "docs" / "tutorial.md"
PRINTED = [(page, source) for page in pages() if page != TUTORIAL for source in AFTER.findall(page.read_text("utf-8"))]
PORT = 8000  # the tutorial's
LISTENING = f"until (exec 3<>/dev/tcp/127.0.0.1/{PORT}) 2>/dev/null; do sleep 0.1; done"
pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of all files of the repository, where a registry of packages answers."""
    ask = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps", "--ignore-installed", "click"]
    if subprocess.run(ask, capture_output=True, check=False).returncode:
        pytest.skip("no registry of packages answers")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    if not listed:
        pytest.skip("this is no checkout")
    folder = tmp_path_factory.mktemp("checkout")
    for name in filter(None, listed.split("\0")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def typed(checkout: Path, lines: Iterator[str], **variables: str) -> None:
    """Have a shell do some lines in the checkout, outside of this environment; the first that fails ends it."""
    script = "\n".join(["set -eo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *lines])
    outside = ":".join(part for part in os.environ["PATH"].split(":") if part != str(Path(sys.executable).parent))
    here = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    done = subprocess.run(
        ["bash", "-c", script], cwd=checkout, env={**here, "PATH": outside, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]


def lines_of(page: Path) -> Iterator[str]:
    """Yield the lines of a page's examples for a shell; one that serves is waited for."""
    for _, kind, source in FENCE.findall(HIDDEN.sub("", page.read_text("utf-8"))):
        if kind == "python":
            yield f"python - <<'END'\n{source}END"
            continue
        for step in steps(source, prompt="$ " if kind == "console" else ""):
            yield step.command
            if step.command.endswith("&"):
                yield LISTENING


def test_the_tutorial_from_the_first_line(checkout: Path) -> None:
    """An environment is made, the package installed and all of the page done in it, by a shell."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", PORT)) == 0:
            pytest.skip(f"something listens on port {PORT} already")
    typed(checkout, lines_of(TUTORIAL))
    assert (checkout / "runs" / "oracle" / "report.html").exists()


@pytest.mark.parametrize(
    ("page", "source"), PRINTED, ids=[f"{page.relative_to(ROOT)}-{place}" for place, (page, _) in enumerate(PRINTED)]
)
def test_what_is_printed_to_install_and_to_try_works(page: Path, source: str, checkout: Path) -> None:
    """`make demo` makes its environment and ends; of each `pip install` everything is found, and fits together."""
    lines = [step.command for step in steps(source, prompt="")]
    if lines[0].startswith("pip "):
        other = "python3 -m venv other; . other/bin/activate; pip install -qU setuptools"
        here = "pip install -q --no-deps -e ."
        typed(checkout, iter([other, here, "export PIP_DRY_RUN=1 PIP_NO_BUILD_ISOLATION=0", *lines]))
    else:
        typed(checkout, iter(["rm -rf .venv", *lines]))
