"""What a page holds of all items: columns by their names, texts once in blocks, and a policy for our script alone."""

from __future__ import annotations

import base64
import gzip
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from made_page import with_words
from made_run import made_items, write_run

from svr_async.errors import UsageError
from svr_async.evaluation.items import Exchange
from svr_async.evaluation.run_folder import Run, RunFolder, Texts
from svr_async.reports.item_blocks import BLOCK_ITEMS, blocks_of
from svr_async.reports.item_index import couples_of, index_of, result_of
from svr_async.reports.item_page import SCRIPTS, item_part
from svr_async.reports.report import render_report, template_text


def run_of(folder: Path, **changes: Any) -> Run:
    """Return a run of 320 items."""
    return RunFolder.load(write_run(folder, texts=None, **changes))


def unpacked(block: str) -> dict[str, Any]:
    """Return what a block holds."""
    found: dict[str, Any] = orjson.loads(gzip.decompress(base64.b64decode(block)))
    return found


def test_columns_tell_what_the_items_say(tmp_path: Path) -> None:
    """Every coded column names the value of each item, and rubrics stand with the items that have them."""
    run = run_of(tmp_path)
    index = index_of([run], couples_of([run]))
    own = index["runs"][0]

    def named(column: dict[str, Any]) -> list[str]:
        return [column["names"][code] for code in column["codes"]]

    assert named(index["domain"]) == [item.domain for item in run.items]
    assert named(own["result"]) == [result_of(item) for item in run.items]
    assert {"right", "wrong", "tie", "parse error"} <= set(own["result"]["names"])
    assert own["margin"] == [item.margin for item in run.items]
    texts = [[own["rubrics"]["names"][code] for code in codes] for codes in own["rubrics"]["codes"]]
    assert texts == [[row.text for row in item.rubrics] for item in run.items]
    assert [bool(flag) for flag in own["swapped"]] == [
        len({value > 0 for value in item.margins.values()}) == 2 for item in run.items
    ]


def test_each_text_is_stored_once_and_found_by_its_number(tmp_path: Path) -> None:
    """Over all blocks no text is twice; what an item names lies in its block or in an earlier one."""
    run = run_of(tmp_path)
    texts = {
        item.id: Texts(prompt=f"p{at // 9}", response_a=f"a{at // 3}", response_b="b")
        for at, item in enumerate(run.items)
    }
    packs = list(blocks_of(couples_of([run]), texts))
    blocks = [unpacked(block) for _, block in packs]
    shelf = [text for block in blocks for text in block["texts"]]
    details = [detail for block in blocks for detail in block["items"]]
    assert len(blocks) == -(-320 // BLOCK_ITEMS)
    assert len(set(shelf)) == len(shelf)
    assert [start for start, _ in packs] == [0, len(blocks[0]["texts"])]
    assert [shelf[detail["response_a"]] for detail in details] == [f"a{at // 3}" for at in range(320)]
    assert all(detail["prompt"] < packs[0][0] + len(blocks[0]["texts"]) for detail in blocks[0]["items"])


def test_a_request_is_stored_beside_the_texts_that_it_quotes(tmp_path: Path) -> None:
    """The parts of a request join to what was sent, and those that are the item's texts add none."""
    run = run_of(tmp_path, items=made_items(n=1))
    texts = Texts(prompt="What (now)?", response_a="This.", response_b="That.")
    sent = f"Judge.\n{texts.prompt}\nA: {texts.response_a} B: {texts.response_b}"
    calls = {run.items[0].id: [Exchange(key="ab", asked=(("user", sent),), reply="[[A]]")]}
    ((_, block),) = blocks_of(couples_of([run]), {run.items[0].id: texts}, [calls])
    found = unpacked(block)
    ((role, parts),) = found["items"][0]["runs"][0]["calls"][0]["asked"]
    assert role == "user"
    assert "".join(found["texts"][number] for number in parts) == sent
    assert sum("This." in text for text in found["texts"]) == 1


def test_two_runs_are_joined_by_their_ids(tmp_path: Path) -> None:
    """Items that only one of them has are left out; runs that share none are refused."""
    one = run_of(tmp_path / "one")
    two = replace(one, items=one.items[10:20])
    assert [couple[0].id for couple in couples_of([one, two])] == [item.id for item in two.items]
    other = replace(one, items=tuple(replace(item, id=f"x{item.id}") for item in one.items))
    with pytest.raises(UsageError, match="share no item"):
        couples_of([one, other])


def test_ids_of_errors_lead_to_their_items(tmp_path: Path) -> None:
    """In the summary of a page that has all items; a page without them has no link that leads nowhere."""
    run = run_of(tmp_path)
    whole = render_report([run], items=item_part([run], {}))
    linked = set(re.findall(r'href="#items\?item=([^"]+)"', whole))
    assert len(linked) > 20
    assert linked <= {quote(item.id) for item in run.items if item.correct is False}
    assert "#items?item=" not in render_report([run])


def test_the_policy_admits_our_script_alone(tmp_path: Path) -> None:
    """The digest in the policy is that of the only script that runs; data stand in elements that do not."""
    run = run_of(tmp_path)
    page = render_report([run], items=item_part([run], {}))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;;" in page
    assert page.count("default-src &#39;none&#39;") == 1
    assert "script-src" not in render_report([run])


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    """Neither a clock nor chance is in the bytes."""
    run = with_words(run_of(tmp_path), "why")
    first, second = (render_report([run], items=item_part([run], {})) for _ in range(2))
    assert first == second


def test_the_script_writes_texts_alone() -> None:
    """Nothing in it makes elements of a text, runs a text, or asks a network."""
    script = "".join(template_text(f"items/{name}.js") for name in SCRIPTS)
    makes = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser", "createContextualFragment")
    runs = ("eval(", "Function(", "import(", "fetch(", "XMLHttpRequest", "WebSocket", "sendBeacon", 'setAttribute("on')
    assert [name for name in (*makes, *runs) if name in script] == []
