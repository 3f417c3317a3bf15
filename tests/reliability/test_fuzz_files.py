"""Damaged files of every kind, given to the commands that read them: one line and a code, and nothing else happens.

`make test` runs some cases of a few kinds; the soak runs every kind for SOAK_FUZZ_S seconds (60), from SOAK_SEED on.
What was found and mended lies in test_fuzz_findings.py, each by itself.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from fuzz_campaign import Fuzzer, campaign, told
from fuzz_ground import make_ground
from fuzz_kinds import KINDS, Kind
from soak_report import note

SECONDS = float(os.environ.get("SOAK_FUZZ_S", "60"))  # read when loaded: tests run in an environment of their own
SEED = int(os.environ.get("SOAK_SEED", "1"))
QUICK: dict[str, Kind] = {
    "pairs": replace(KINDS["pairs as JSON"], commands=KINDS["pairs as JSON"].commands[:4], beside=()),
    "banks": replace(KINDS["banks"], commands=KINDS["banks"].commands[:4], beside=("good-bank",)),
    "groups": replace(KINDS["groups"], targets=("groups.jsonl",), commands=KINDS["groups"].commands[:1]),
    "judges.toml": replace(KINDS["judges.toml"], commands=KINDS["judges.toml"].commands[:2]),
}


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what the few kinds need."""
    return make_ground(tmp_path_factory.mktemp("fuzz") / "ground", ("pairs", "groups", "bank"))


@pytest.fixture(scope="module")
def whole_ground(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one of every file that the program reads."""
    return make_ground(tmp_path_factory.mktemp("fuzz") / "ground")


def check(name: str, fuzzer: Fuzzer, *, cases: int = 0, seconds: float = 0.0) -> None:
    """Run a campaign; AssertionError tells every finding and what makes it again."""
    assert 0 in fuzzer.whole().values()
    found = campaign(fuzzer, SEED, cases=cases, seconds=seconds)
    assert not found.findings, "\n".join(told(name, found))
    if seconds:
        codes = " ".join(f"{code}:{count}" for code, count in sorted(found.codes.items()))
        note("P16", f"damaged files: {name}", cases=found.cases, seconds=round(found.seconds), exits=codes, findings=0)


@pytest.mark.parametrize("name", QUICK)
def test_some_damaged_files(name: str, ground: Path, tmp_path: Path) -> None:
    """Sixty cases each: a documented exit code, one line, nothing run, nothing written but the output."""
    check(name, Fuzzer(QUICK[name], ground, tmp_path / "case"), cases=60)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", KINDS)
def test_damaged_files_of_every_kind(name: str, whole_ground: Path, tmp_path: Path) -> None:
    """As long as is asked for: no finding."""
    check(name, Fuzzer(KINDS[name], whole_ground, tmp_path / "case"), seconds=SECONDS)
