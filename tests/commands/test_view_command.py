"""`svr view` and the items of `svr report`: what the page holds, read back from its packed parts."""

from __future__ import annotations

import base64
import gzip
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from rig import name_judge, serving, svr_here, write_bank, write_bench

from svr_async.evaluation.run_folder import Run

PACKED = re.compile(r'<script type="application/octet-stream" id="items-(index|block-\d+)">([^<]*)</script>')


@pytest.fixture(scope="module", autouse=True)
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Judge a few pairs in both orders and some in one, and work in their folder; the endpoint is gone then."""
    folder, before = tmp_path_factory.mktemp("viewed"), Path.cwd()
    os.chdir(folder)
    try:
        with serving() as sim:
            write_bench(folder / "bench.jsonl", 4)
            name_judge(folder, sim.base_url)
            flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", "direct", "-q")
            assert svr_here(*flags, "--order", "both", "--out", "both") == 0
            assert svr_here(*flags, "--order", "ba", "--limit", "2", "--out", "ba") == 0
        yield folder
    finally:
        os.chdir(before)


def packed_in(page: str) -> dict[str, Any]:
    """Return the index and the blocks of a page."""
    found = PACKED.findall(Path(page).read_text())
    return {name: orjson.loads(gzip.decompress(base64.b64decode(data))) for name, data in found}


def test_explain_shows_the_texts_of_the_runs_own_data(capsys: pytest.CaptureFixture[str], judged: Path) -> None:
    """Without --data, as long as the judged file is unchanged."""
    row = orjson.loads((judged / "bench.jsonl").read_bytes().splitlines()[0])
    item = Run.load("ba").items[0].id
    assert svr_here("explain", "ba", item) == 0
    assert row["instruction"][:100] in capsys.readouterr().out


def test_the_page_holds_every_item_with_its_texts() -> None:
    """Index and block tell id, margins of both orders, reasons, and the texts of the run's data."""
    assert svr_here("view", "both", "--no-open", "--out", "page.html") == 0
    held, run = packed_in("page.html"), Run.load("both")
    rows = [orjson.loads(line) for line in Path("bench.jsonl").read_bytes().splitlines()]
    block = held["block-0"]
    assert held["index"]["id"] == [item.id for item in run.items]
    assert held["index"]["runs"][0]["margin"] == [item.margin for item in run.items]
    assert [one["runs"][0]["margins"] for one in block["items"]] == [item.margins for item in run.items]
    assert block["texts"][block["items"][1]["prompt"]] in str(rows[1])
    assert len(block["items"][0]["runs"][0]["verdict"]) == 2
    assert len(set(block["texts"])) == len(block["texts"])


def test_calls_are_put_in_on_demand_without_asking_anybody() -> None:
    """With --calls each item has request and reply of both orders; the responses in the requests are stored once."""
    assert svr_here("view", "both", "--no-open", "--calls", "--out", "calls.html") == 0
    block = packed_in("calls.html")["block-0"]
    one = block["items"][0]
    calls = one["runs"][0]["calls"]
    assert len(calls) == 2
    for call in calls:
        parts = [number for _, numbers in call["asked"] for number in numbers]
        assert {one["response_a"], one["response_b"]} <= set(parts)
        assert "[[" in block["texts"][call["reply"]]
    assert one["runs"][0]["keys"] == [call["key"] for call in calls]


def test_a_bank_has_a_page_too(judged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`svr view BANK` writes the page of the bank."""
    write_bank(judged / "bank")
    assert svr_here("view", "bank", "--no-open", "--out", "bank.html") == 0
    assert capsys.readouterr().out.startswith("wrote bank.html")
    assert "The rubrics that decide most" in (judged / "bank.html").read_text()
