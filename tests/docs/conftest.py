"""Fixtures of the tests of the docs: what the tutorial leaves, made once for all workers."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pages import ROOT, Runner
from shell import Shell


@pytest.fixture
def workshop(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Return a function that goes through the tutorial, once, and returns the folder in which that was done."""

    def made() -> Path:
        base = tmp_path_factory.getbasetemp()
        where = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "tutorial"
        where.mkdir(exist_ok=True)
        with where.with_suffix(".lock").open("w") as lock, monkeypatch.context() as patch:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one worker goes through it, the others wait
            if not (where / "done").exists():
                patch.chdir(where)
                with contextlib.ExitStack() as stack:
                    left_out = Runner(Shell(stack), lambda name: where / name).page(ROOT / "docs" / "tutorial.md")
                (where / "done").write_text("\n".join(left_out))
        return where

    return made
