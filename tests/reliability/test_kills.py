"""Kills and failing disks: whatever ends a run of `svr eval`, the same command goes on, and nothing is paid twice."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nursery import Nursery, Operation, Strike
from rig import serving
from serve_trials import serve_killed
from trials import KILLED, STORAGE, Site, killed_at_random, open_site, power_cuts, struck

from svr_async.engine.wires.registry import NAMES, find_wire
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import GROUPS, FaultConfig

ANYWHERE = Path("/")  # each trial fills in its own folder
KINDS = tuple(kind for kind in GROUPS["mixed"] if kind not in {"429-date", "huge", "gzip-bomb"})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Site]:
    """Serve an endpoint that takes a little time, with a small file of pairs."""
    with open_site(tmp_path_factory.mktemp("site"), nursery, config=SimConfig(latency_ms=10.0), pairs=12) as opened:
        yield opened


def test_row_059_killed_at_random_moments(site: Site) -> None:
    """Killed twice at random moments, a run ends with the bytes of a run without a kill; nothing kept is paid again."""
    tally = killed_at_random(site, range(4), longest_s=0.4, kills=2)
    assert tally.trials == 4
    assert tally.killed >= 1


def test_row_059_a_server_killed_while_clients_ask(tmp_path: Path) -> None:
    """What `svr serve` had answered when it was killed another one answers alike, and nothing is paid for it."""
    with serving(SimConfig(latency_ms=10.0)) as sim:
        tally = serve_killed(sim, tmp_path, [7], longest_s=0.2, count=16)
    assert tally.codes == [KILLED]


@pytest.fixture(scope="module", params=NAMES)
def wire(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Iterator[Site]:
    """Serve every wire that there is in turn, fifteen statements or five rubrics a pair."""
    folder, pairs = tmp_path_factory.mktemp(request.param), 2 if request.param == "logprobs" else 16
    method = "vanilla" if find_wire(request.param).score else "oracle"
    with open_site(
        folder, nursery, config=SimConfig(latency_ms=5.0), pairs=pairs, method=method, wire=request.param
    ) as opened:
        yield opened


def test_kills_on_every_wire(wire: Site) -> None:
    """Killed twice at random moments, a run ends with the same bytes there too, and nothing kept is paid again."""
    assert killed_at_random(wire, range(1), longest_s=0.4, kills=2).trials == 1


def test_faults_on_every_wire(wire: Site) -> None:
    """Errors in its shape, broken and lost replies: the items are those of the run without any, each call accounted."""
    with serving(SimConfig(faults=FaultConfig(rate=0.6, kinds=KINDS, retry_after_s=0.01))) as rough:
        site = replace(wire, server=rough)
        found = site.finish(site.place("rough"), [], 0)
    assert found.after_billing > 0
    assert len(found.kinds) > 8


def test_power_cuts_lose_no_more_than_kills(site: Site) -> None:
    """Killed, and with what was written since the last sync thrown away: the same promises hold."""
    assert power_cuts(site, range(3), longest_s=0.5).trials == 3


@pytest.mark.parametrize("mode", ["die", "die after"])
def test_row_059_killed_at_commit_boundaries(site: Site, mode: str) -> None:
    """Killed right before or right after a sync, which is what a commit ends with: nothing acknowledged is lost."""
    strikes = [Strike(under=ANYWHERE, operation=Operation.SYNC, nth=nth, mode=mode) for nth in (2, 9, 17, 24)]
    tally = struck(site, strikes, codes=[KILLED])
    assert tally.killed >= 3


def test_row_061_killed_at_every_rename_of_the_report(site: Site) -> None:
    """The run folder's files appear whole or not at all: killed at each rename, the next run writes the same bytes."""
    strikes = [Strike(under=ANYWHERE, operation=Operation.RENAME, nth=nth, mode="die after") for nth in (1, 2, 5)]
    assert struck(site, strikes, codes=[KILLED]).killed == 3


def test_row_066_disk_full_at_the_nth_write(site: Site) -> None:
    """From its Nth write on the disk is full: exit 5 in one line, and with room again the same command completes."""
    strikes = [Strike(under=ANYWHERE, operation=Operation.WRITE, nth=nth) for nth in (2, 30, 110, 150, 190)]
    tally = struck(site, strikes, codes=[STORAGE])
    assert tally.codes[STORAGE] >= 4


def test_row_068_io_errors_of_syncs_opens_and_renames(site: Site) -> None:
    """A sync, an open or a rename that fails with EIO for good is exit 5; the next run has lost nothing."""
    at = {Operation.SYNC: (3, 14, 20), Operation.OPEN: (2, 9), Operation.RENAME: (1, 3)}
    strikes = [
        Strike(under=ANYWHERE, operation=operation, nth=nth, error=errno.EIO)
        for operation, numbers in at.items()
        for nth in numbers
    ]
    assert struck(site, strikes, codes=[STORAGE]).codes[STORAGE] >= 5
