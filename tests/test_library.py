"""`evaluate`, `train` and `compare`: pairs in any form, what a run and a bank offer, and errors in one line."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import sys
from collections.abc import Callable
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet
import pytest
from rig import RULES, serving, svr_here

import svr_async as svr
from svr_async.core.rubric import Check
from svr_async.evaluation.settings import EvalSettings
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.rules.registry import rubric_for
from svr_async.library import EvalOptions, TrainOptions
from svr_async.scoring.bank import BankRubric
from svr_async.training.settings import TrainSettings

N, TRAINED = 400, 60
GOOD, POOR = "{n} and {n} is {m}, since adding doubles it.", "Great question! Perhaps {m}, or maybe not!"


def pair(n: int) -> dict[str, Any]:
    """Return a labelled pair; odd ones prefer A, and some cells are missing."""
    texts = [text.format(n=n, m=2 * n) for text in (GOOD, POOR)]
    a, b = texts if n % 2 else texts[::-1]
    named = {"id": f"p{n}", "prompt": f"What is {n} and {n}?", "response_a": a, "response_b": b}
    return {**named, "label": "AB"[1 - n % 2], "domain": "sums" if n % 3 else None, "hours": 1.5 if n % 5 else None}


ROWS = [pair(n) for n in range(1, N + 1)]


class Frame:
    """A table as pandas has it: rows by `to_dict`, missing numbers as NaN, NumPy scalars."""

    iloc = columns = None

    def to_dict(self, orient: str) -> list[dict[str, Any]]:
        """Return the rows."""
        assert orient == "records"
        return [{**row, "hours": np.float64(row["hours"] or np.nan)} for row in ROWS]


def written(name: str) -> Path:
    """Write the pairs to a file of this name."""
    path = Path(name)
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        path.write_bytes(b"\n".join(map(orjson.dumps, ROWS)))
    return path


def pandas_frame() -> Any:
    """Return a DataFrame, where pandas is installed."""
    return pytest.importorskip("pandas").DataFrame(ROWS)


def hub_dataset() -> Any:
    """Return a Dataset, where datasets is installed."""
    return pytest.importorskip("datasets").Dataset.from_list(ROWS)


FORMS: dict[str, Callable[[], Any]] = {
    "dictionaries": lambda: ROWS,
    "generator": lambda: iter(ROWS),
    "frame": Frame,
    "pandas": pandas_frame,
    "datasets": hub_dataset,
    "arrow": lambda: pa.Table.from_pylist(ROWS),
    "text path": lambda: str(written("pairs.jsonl")),
    "parquet": lambda: written("pairs.parquet"),
    "other names": lambda: [{"question": row["prompt"], **{k: row[k] for k in row if k != "prompt"}} for row in ROWS],
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with its own cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SVR_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the items.jsonl that the command writes for the pairs in a file."""
    folder = tmp_path_factory.mktemp("expected")
    (folder / "pairs.jsonl").write_bytes(b"\n".join(map(orjson.dumps, ROWS)))
    assert svr_here("eval", folder / "pairs.jsonl", *RULES, "--out", folder / "run", "-q") == 0
    return (folder / "run" / "items.jsonl").read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_pairs_in_any_form_give_the_same_run(form: str, expected: bytes) -> None:
    """400 pairs as dictionaries, DataFrame, Dataset, Arrow table or file: the same items byte for byte."""
    options: Any = {"columns": "prompt=question"} if form == "other names" else {}
    run = svr.evaluate(FORMS[form](), judge="rules", **options)
    assert (run.path / "items.jsonl").read_bytes() == expected
    assert run.path.name.startswith("pairs-direct-rules-")
    texts = run.explain("p7").texts
    assert texts is not None
    assert texts.prompt == "What is 7 and 7?"


def test_a_run_is_a_table_and_can_be_loaded_and_compared() -> None:
    """Accuracy, items as Arrow or pandas, the run read back, and the comparison of two runs in a line and as HTML."""
    run = svr.evaluate(ROWS, judge="rules", limit=40, out="first", concurrency=4)
    assert run.accuracy == sum(item.correct is True for item in run.items) / 40
    table = run.items.to_arrow()
    assert (table.num_rows, table["id"][6].as_py()) == (40, "p7")
    assert table["rubrics"][0].as_py()[0]["id"] == run.items[0].rubrics[0].id
    if find_spec("pandas"):
        assert list(run.items.to_pandas()["id"]) == [item.id for item in run.items]
    else:
        with pytest.raises(svr.SvrError, match="to_pandas needs pandas"):
            run.items.to_pandas()
    assert svr.Run.load("first").items == run.items
    found = svr.compare(run, svr.evaluate(ROWS, judge="rules", limit="1-40", order="both", out="second"), "first")
    assert len(found.duels) == 2
    assert found.duels[0].verdict in repr(found)
    assert "<table" in found._repr_html_()
    assert "<table" in run._repr_html_()


def test_a_bank_predicts_scores_explains_and_is_stored(capsys: pytest.CaptureFixture[str]) -> None:
    """The command trains the same bytes; predict, score, explain and evaluate agree, also with a loaded copy."""
    bank = svr.train(ROWS, judge="rules", rounds=1, limit=TRAINED)
    assert capsys.readouterr() == ("", "")
    assert Path(bank.path).parent.parent == Path("banks")
    flags = ("--rounds", "1", "--limit", TRAINED, "--out", "typed", "-q")
    assert svr_here("train", written("pairs.jsonl"), *RULES, *flags) == 0
    for name in ("selector.safetensors", "vocabulary.json"):
        assert (Path("typed/bank") / name).read_bytes() == (Path(bank.path) / name).read_bytes()
    later = ROWS[TRAINED : TRAINED + 20]
    won = bank.predict(later)
    assert set(won) <= {"A", "B", None}
    assert bank.score(later) == np.mean([one == row["label"] for one, row in zip(won, later, strict=True)])
    unlabelled = [{name: row[name] for name in ("prompt", "response_a", "response_b")} for row in later]
    assert list(bank.predict(unlabelled)) == list(won)
    triples = [tuple(row.values()) for row in unlabelled]
    assert list(bank.predict([(prompt, b, a) for prompt, a, b in triples])) == [
        {"A": "B", "B": "A", None: None}[one] for one in won
    ]
    verdict = bank.explain(*triples[0])
    assert verdict.winner == won[0]
    assert sum(part.value for part in verdict.contributions) == pytest.approx(verdict.margin)
    digest = bank.save("copy")
    copy = svr.Bank.load("copy")
    assert (copy.digest, list(copy.predict(later))) == (digest, list(won))
    with svr.Engine("rules") as engine:
        assert list(copy.predict(later, judge=engine)) == list(won)
    run = svr.evaluate(later, judge="rules", bank=bank)
    assert [item.predicted for item in run.items] == list(won)


def test_the_twins_return_the_same_and_a_bank_keeps_its_endpoint() -> None:
    """The same run and bank on a running loop; a bank just trained at a URL asks that URL again."""

    async def both(judge: str) -> tuple[svr.Run, svr.Bank]:
        run = await svr.aevaluate(ROWS, judge=judge, limit=10)
        return run, await svr.atrain(ROWS, judge=judge, rounds=1, limit=TRAINED)

    run, bank = asyncio.run(both("rules"))
    assert run.items == svr.evaluate(ROWS, judge="rules", limit=10).items
    again = svr.train(ROWS, judge="rules", rounds=1, limit=TRAINED)
    assert (again.path, again.digest) == (bank.path, bank.digest)
    with serving() as sim:
        bank = svr.train(ROWS, judge=f"{sim.base_url}#gpt-oss-120b", rounds=1, limit=TRAINED, max_calls=5000)
        before = sim.stats()["calls"]
        assert len(bank.predict(ROWS[-2:])) == 2
        assert sim.stats()["calls"] > before


ERRORS: dict[str, tuple[Callable[[], Any], str]] = {
    "no judge": (lambda: svr.evaluate(ROWS), "no judge is named"),
    "no pairs": (lambda: svr.evaluate(judge="rules"), "give pairs, or benchmark="),
    "both": (lambda: svr.evaluate(ROWS, judge="rules", benchmark="rubricbench"), "give pairs, or benchmark="),
    "a benchmark": (lambda: svr.evaluate("rubricbench", judge="rules"), "benchmark='rubricbench' without pairs"),
    "a number": (lambda: svr.evaluate(3, judge="rules"), "pairs cannot be a int"),  # type: ignore[arg-type]
    "splits": (lambda: svr.train({"train": ROWS}, judge="rules"), "data['train']"),  # type: ignore[dict-item]
    "unknown option": (lambda: svr.evaluate(ROWS, judge="rules", limits=3), "did you mean limit?"),  # type: ignore[call-arg]
    "engine option": (lambda: svr.Engine("rules", budgets=3), "did you mean budget?"),  # type: ignore[call-arg]
    "no label": (lambda: svr.evaluate([{"prompt": "q", "a": "x", "b": "y"}], judge="rules"), "unknown layout"),
    "no responses": (lambda: made_bank().predict([{"prompt": "q"}]), "list row 1: unknown layout"),
    "benchmark": (lambda: svr.train("rubricbench.jsonl", judge="rules"), "rubricbench"),
    "no bank": (lambda: svr.Bank.load("nowhere"), "nowhere"),
    "bank in memory": (lambda: svr.evaluate(ROWS, judge="rules", bank=made_bank()), "bank.save(folder)"),
    "bank's judge": (lambda: made_bank().predict(ROWS), "name one: judge="),
    "no run": (lambda: svr.compare("x", "y"), "no such run: 'x'"),
}


def made_bank() -> svr.Bank:
    """Return a bank that was made in memory."""
    return svr.Bank(rubrics=(BankRubric(rubric=rubric_for(Check.of("max_words", n=5))),))


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_one_line(name: str) -> None:
    """What the caller did wrong is an SvrError: the value, and what to do."""
    call, says = ERRORS[name]
    with pytest.raises(svr.SvrError) as caught:
        call()
    assert says in caught.value.one_line()
    assert "\n" not in caught.value.one_line()


@pytest.mark.parametrize(("options", "settings"), [(EvalOptions, EvalSettings), (TrainOptions, TrainSettings)])
def test_every_setting_is_a_keyword_argument(options: Any, settings: Any) -> None:
    """The typed options are the fields of the settings and of the limits, but for those that the calls set."""
    own = {"benchmark", "judge", "bank", "limits", "min_coverage", "pairs", "adapter"}
    limits = {"share" if name == "shard" else name for name in options.__annotations__}
    known = {field.name for kind in (settings, JudgeLimits) for field in fields(kind)}
    assert known - own - limits == {"dry_run", "failures"}
    assert limits <= known


@pytest.mark.parametrize("name", ["evaluate", "train", "compare", "Bank"])
def test_the_example_of_a_docstring_runs(name: str) -> None:
    """As printed, from top to bottom, with the results that it shows."""
    text = inspect.getdoc(getattr(svr, name)) or ""
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert example.examples
    failed = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=sys.stderr.write)
    assert failed.failed == 0
