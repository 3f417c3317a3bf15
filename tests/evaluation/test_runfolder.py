"""A run folder is read whole or refused in one line; files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_run import made_items, write_run

from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.run_folder import RunFolder


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Items, metrics, manifest and texts come back as they were written."""
    items = made_items(n=40)
    run = RunFolder.load(write_run(tmp_path / "first-run", items=items))

    assert run.items == tuple(items)
    assert run.metrics["n_total"] == 40
    assert run.manifest["svr_version"] == "0.1.0"
    assert run.name == "first-run"
    assert run.complete


@pytest.mark.parametrize("value", [False, None, "yes"])
def test_only_true_means_complete(tmp_path: Path, value: bool | str | None) -> None:
    """Anything but `true` under `complete` makes a run PARTIAL."""
    assert not RunFolder.load(write_run(tmp_path, metrics={"complete": value})).complete


def test_no_run_is_a_usage_error(tmp_path: Path) -> None:
    """A folder without a run, or no folder at all, is the user's to correct."""
    with pytest.raises(UsageError, match="is not a run folder") as caught:
        RunFolder.load(tmp_path / "nowhere")

    assert caught.value.exit_code == 2


def test_a_run_that_only_began_says_how_to_go_on(tmp_path: Path) -> None:
    """A manifest alone is a run without results yet."""
    (tmp_path / "manifest.json").write_text("{}")

    with pytest.raises(UsageError, match="has no results yet") as caught:
        RunFolder.load(tmp_path)
    assert "repeat" in caught.value.hint


@pytest.mark.parametrize("name", ["manifest.json", "metrics.json", "items.jsonl"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """A run folder with a file gone is rejected with the file's name."""
    (write_run(tmp_path) / name).unlink()

    with pytest.raises(ArtefactError, match=rf"{name} is missing") as caught:
        RunFolder.load(tmp_path)
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", b"{", r"manifest\.json: "),
        ("manifest.json", b"[]", r"manifest\.json: Expected `object`"),
        ("manifest.json", b'{"data": []}', r"manifest\.json: .*\$\.data"),
        ("metrics.json", b"\xff\xfe", r"metrics\.json: "),
        ("metrics.json", b'{"benchmark": 3}', r"metrics\.json: .*\$\.benchmark"),
        ("items.jsonl", b"{}\n", r"items\.jsonl line 1: .*`id`"),
        ("items.jsonl", b"\n\n7\n", r"items\.jsonl line 3: "),
        ("items.jsonl", b'{"id": "x', r"items\.jsonl line 1: "),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """A file that cannot be read is rejected in one line that names the place."""
    (write_run(tmp_path) / name).write_bytes(content)

    with pytest.raises(ArtefactError, match=message) as caught:
        RunFolder.load(tmp_path)
    assert "\n" not in caught.value.one_line()
