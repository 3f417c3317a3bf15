"""CONTRIBUTING.md tells where things are: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`([\w./*]+(?:\.(?:py|txt|md)|/))(?:`|:)", TEXT)))
TOPS = ("svr_async", "tests", "docs", "benchmarks")
PLACES = [str(path.relative_to(ROOT)) + "/" * path.is_dir() for top in TOPS for path in (ROOT / top).rglob("*")]


@pytest.mark.parametrize("name", [name for name in NAMED if "NAME" not in name])
def test_every_file_that_it_names_exists(name: str) -> None:
    """A path is one from the root, or the end of one where it says less."""
    wanted = re.compile(rf"(?:.*/)?{re.escape(name).replace(re.escape('*'), '[^/]*')}")
    assert any(wanted.fullmatch(place) for place in PLACES)


@pytest.mark.parametrize("name", [name for name in NAMED if "NAME" in name])
def test_a_file_to_add_has_others_beside_it(name: str) -> None:
    """Where something new goes there are modules of its kind already, and the list that names them."""
    folder = ROOT / Path(name).parent
    assert len(list(folder.glob("*.py"))) > 2
    lists = {"commands": "main.py", "wires": "__init__.py", "adapters": "__init__.py"}
    assert (folder / lists.get(folder.name, "registry.py")).exists()
