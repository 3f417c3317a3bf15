"""`svr data` on files of people: checked, converted, fetched, from standard input; and what a run says of them."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from svr_async.adapters import get_adapter, tables
from svr_async.commands.main import run
from svr_async.commands.main import svr as group

TABLE = b"Question;Answer 1;Answer 2;Winner\nHi?;yes;no;1\nHo?;no;yes;2\nHo?;no;yes;2\nHu?;so;so so;tie\n"


def svr(*args: str) -> int:
    """Run a command as a shell would and return its exit code."""
    return run(group, "svr", list(args))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a table as Excel writes it where semicolons part cells, in the folder that commands run in."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "votes.csv"
    path.write_bytes(TABLE)
    return path


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the table on standard input, for this test alone."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TABLE)))
    tables._standard_input.cache_clear()
    yield
    tables._standard_input.cache_clear()


def test_a_file_is_checked_as_a_run_would_read_it(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`svr data check` says how labels are read, how many rows are pairs, and shows one."""
    assert svr("data", "check", "votes.csv", "--row", "2") == 0
    printed = capsys.readouterr().out
    assert "winner: 1 = answer_1 is better, 2 = answer_2 is better (2 ×2, 1 ×1, tie ×1)" in printed
    assert "1 × tie (the data prefers neither) (left out): votes.csv row 4" in printed
    assert "1 × repeated rows, kept with #2, #3 … after their ids: votes.csv row 3" in printed
    assert "encoding    UTF-8" in printed
    assert "domains     (none): 3" in printed
    table.write_bytes(TABLE + b"Ha?;yes\nHe?;;no;1\n" * 2)
    assert svr("data", "check", "votes.csv") == 2
    found = capsys.readouterr()
    assert "a run would stop at the first invalid row (2 in all)" in found.err
    assert "2 × invalid: column 'winner': expected a label (left out): votes.csv row 5, votes.csv row 7" in found.out
    assert "2 × an empty response: votes.csv row 6, votes.csv row 8" in found.out
    assert svr("data", "check", "votes.csv", "--lenient") == 0
    table.write_bytes(b"How are you today, my friend?,good,bad\nHi?,good,bad\n")
    assert svr("data", "check", "votes.csv") == 2
    assert "no header row?" in capsys.readouterr().err
    table.write_bytes(TABLE)
    assert svr("data", "check", "votes.csv", "--row", "9") == 2
    assert "--row 9: there are 3 pairs" in capsys.readouterr().err


def test_standard_input_is_read_like_a_file(table: Path, piped: None, capsys: pytest.CaptureFixture[str]) -> None:
    """`-` has the pairs and the digest of the same file, also when a command reads it twice."""
    assert svr("data", "check", "-", "--json") == 0
    assert orjson.loads(capsys.readouterr().out)["digest"] == get_adapter("pairs").load(table).digest
    assert svr("data", "split", "-", "--share", "0.5", "--out", "split") == 0


def test_the_line_of_the_accuracy_counts_what_was_left_out(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Ties, other rows and repeated ones stand next to the accuracy: on the screen, in the report, in metrics.json."""
    assert svr("eval", "pairs", "--data", "votes.csv", "--method", "first", "-q", "--out", "run") == 0
    printed = capsys.readouterr().out
    assert "left out: 1 tie; kept: 1 row repeated" in printed
    assert "left out: 1 tie; kept: 1 row repeated" in Path("run/report.html").read_text()
    assert orjson.loads(Path("run/metrics.json").read_bytes())["left_out"] == {"ties": 1, "repeated": 1}
    data = orjson.loads(Path("run/manifest.json").read_bytes())["data"]
    assert data["readings"] == ["winner: 1 = answer_1 is better, 2 = answer_2 is better (2 ×2, 1 ×1, tie ×1)"]


def test_flags_decide_what_a_run_and_a_training_read(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--columns and --label-map reach an evaluation, and an error names the flag that helps."""
    table.write_bytes(b"q,x,y,who\nHi?,yes,no,1\nHo?,yes,no,1\n")
    columns = "prompt=q,response_a=x,response_b=y,label=who"
    args = (
        "eval",
        "pairs",
        "--data",
        "votes.csv",
        "--columns",
        columns,
        "--method",
        "first",
        "--order",
        "ab",
        "-q",
        "--out",
        "run",
    )
    assert svr(*args) == 2
    assert "--label-map '0=a,1=b' or --label-map '1=a,2=b'" in capsys.readouterr().err
    assert svr(*args, "--label-map", "1=a,2=b") == 0
    metrics = orjson.loads(Path("run/metrics.json").read_bytes())
    assert (metrics["accuracy"], metrics["left_out"]) == (1.0, {})
    assert svr("explain", "run", metrics["benchmark"], "--data", "votes.csv") != 0  # read as the run did, no such pair
    assert "has no" in capsys.readouterr().err


RUN = "seven grey herons stood by the café and watched how the ferry left"


def test_overlap_with_benchmarks_is_counted_with_and_without_ties(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`svr data contamination`: by benchmark and together, with ties and without; --out has the clean pairs."""
    monkeypatch.chdir(tmp_path)

    def row(prompt: str, label: str, *, b: str = "no") -> dict[str, str]:
        return {"prompt": prompt, "response_a": "yes", "response_b": b, "label": label}

    def write(name: str, *rows: dict[str, str]) -> None:
        Path(name).write_bytes(b"\n".join(map(orjson.dumps, rows)))

    other = RUN.replace("herons", "boats")
    write(
        "train.jsonl",
        row("Clean?", "A"),
        row("One.", "A", b=f"It began: {RUN.upper()}!"),
        row(f"{other} {RUN}", "B"),
        row(f"Tied: {RUN}", "tie"),
        row("Tied and clean", "tie"),
    )
    write("one.jsonl", row(RUN, "A"))
    write("two.jsonl", row(other, "A"))
    given = ("data", "contamination", "train.jsonl", "--against", "pairs=one.jsonl", "--against", "pairs=two.jsonl")
    assert svr(*given, "--out", "clean.jsonl", "--json") == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["pairs"], found["ties"], found["clean"]) == (3, 2, 1)
    assert [one["before_dropping_ties"]["removed"] for one in found["by"]] == [3, 1, 3]
    assert [one["after_dropping_ties"] for one in found["by"]] == [
        {"removed": 2, "share": 0.666667}, {"removed": 1, "share": 0.333333}, {"removed": 2, "share": 0.666667},
    ]  # fmt: skip
    assert [pair.prompt[0].content for pair in get_adapter("pairs").load(Path("clean.jsonl")).pairs] == ["Clean?"]
    assert svr(*given) == 0
    printed = capsys.readouterr().out
    assert "3 of 5" in printed
    assert "1 pairs are clean; 2 overlap, 2 ties are dropped" in printed
    assert svr(*given[:4], "pairs") == 2
    assert "--against pairs names no file" in capsys.readouterr().err
    kept = Path("train.jsonl").read_bytes()
    for name in ("train.jsonl", "one.jsonl"):
        assert svr(*given[:5], "--out", name) == 2
        assert f"--out {name} would overwrite {name}, which is read" in capsys.readouterr().err
    assert Path("train.jsonl").read_bytes() == kept
    assert svr(*given, "--out", "clean.csv") == 2
    assert "--out clean.csv is not a jsonl file" in capsys.readouterr().err
