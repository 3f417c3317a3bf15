"""The speed benchmarks: clients and server work together, the table renders, and `--check` fails on a bad result."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

SPEED = Path(__file__).parents[2] / "benchmarks" / "speed"
RAW = {"raw_us": 100.0, "raw_connections": 64, "hit_us": 30.0}


class Modules:
    """Imports the benchmarks' modules by name."""

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(name)


@pytest.fixture
def speed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    """Return the modules of the benchmarks; all are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(SPEED))
    yield Modules()
    for name in [name for name, module in sys.modules.items() if str(SPEED) in str(getattr(module, "__file__", ""))]:
        del sys.modules[name]


def test_both_clients_have_every_call_answered_over_tls_too(speed: Modules) -> None:
    """Each kind of judge is measured with processes: a cost for raw aiohttp, ours and hits, and both connections."""
    with speed.engine.certificate() as pem:
        for kind in ("json", *(["tls"] if pem else [])):
            row = speed.engine.measure(speed.engine.Cell(kind=kind, in_flight=8, calls=40, repeats=1), pem, None)
            assert min(row.raw_us, row.ours_us, row.hit_us) > 0
            assert 0 < row.raw_connections <= 8
            assert 0 < row.connections <= 48


def test_results_become_one_table_and_figures_with_verdicts(speed: Modules, tmp_path: Path) -> None:
    """The table has a line for each setting, with its target; figures survive the file between two programs."""
    engine, targets = speed.engine, speed.targets
    cells = [one for one in engine.cells(quick=False) if one.kind == "short"]
    shown = {64: (1.5, 70), 512: (1.05, 512), 4096: (1.2, 4096)}
    rows = [
        engine.Row(cell=cell, ours_us=150.0, ratio=ratio, connections=opened, sdk_us=1000.0, **RAW)
        for cell, (ratio, opened) in zip(cells, shown.values(), strict=True)
    ]
    table = engine.table(rows)
    assert "| short | 64 | 100 | 150 | 1.50 (≤ 1.7) | 70 (64, ≤ 80) | 30 | 1,000 |" in table
    assert "| short, 1,000 ms | 4,096 | 100 | 150 | 1.20 (≤ 0.95) | 4,096 (64) | 30 | 1,000 |" in table
    figures = engine.figures(rows)
    assert [one.verdict for one in figures] == ["ok", "ok", "aim reached", "missed", "aim reached", "aim reached"]
    targets.hand_over(figures, tmp_path / "figures")
    assert targets.handed_over(tmp_path / "figures") == figures
    assert "| engine / raw aiohttp, CPU, short, 64 in flight | 1.50 × | ≤ 1.70 × | ≤ 1.40 × | ok |" in targets.table(
        figures
    )
    nothing = targets.Figure(name="f", value=None, unit="×", target=1)
    assert nothing.verdict == "not measured"
    assert engine.median_ratio([90.0, 180.0, 440.0], [100.0, 200.0, 400.0]) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("ratio", "connections", "code"),
    [(2.2, 100, 0), (2.4, 64, 1), (1.4, 101, 1)],
    ids=["within", "cost", "connections"],
)
def test_check_ends_with_1_where_a_bound_is_exceeded(
    speed: Modules, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    ratio: float, connections: int, code: int,
) -> None:  # fmt: skip
    """The bounds are those at 64 in flight; without --check the same results are only printed."""
    engine = speed.engine

    def measured(cell: object, *_: object) -> object:
        return engine.Row(cell=cell, ours_us=1.0, ratio=ratio, connections=connections, **RAW)

    monkeypatch.setattr(engine, "measure", measured)
    for flags, wanted in ((["--quick"], 0), (["--quick", "--check"], code)):
        monkeypatch.setattr(sys, "argv", ["engine.py", *flags])
        assert engine.main() == wanted
    assert ("exceeded: short" in capsys.readouterr().err) == bool(code)
