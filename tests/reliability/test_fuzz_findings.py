"""What the fuzzers found, each once and in small: it was "a bug", and is one line with a code that is told."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from fuzz_seals import reseal
from rig import svr_here, write_bench
from small_bank import checked_bank

from svr_async.adapters.tables import data_files
from svr_async.engine.cache_disk import refuse_foreign_database
from svr_async.engine.reply import Reply, json_value
from svr_async.errors import ArtefactError, ConfigError, DataError, StorageError, UsageError
from svr_async.evaluation.runcheck import item_problem
from svr_async.evaluation.runfolder import RunFolder
from svr_async.evaluation.running.settings import EvalSettings, from_plain, to_plain
from svr_async.fit.choices import Choice, Structure, Trial
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.recorded import load_recorded
from svr_async.reproduction.recipe import load_recipes
from svr_async.scoring.bank import RubricBank
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.stages import Stages
from svr_async.training.rounds.state import candidate_from_json, candidate_to_json, choice_from_values
from svr_async.training.store.entry_files import read_entries
from svr_async.training.store.files import open_verified
from svr_async.training.store.reader import FORMAT, read_meta
from svr_async.training.store.records import SCHEMA_VERSION
from svr_async.vocabulary.fitting import misfit_of
from svr_async.vocabulary.rubric import Rubric

DEEP = "[" * 400 + "]" * 400
Told = Callable[..., str]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    """Return a function that runs a command, which has to end with exit 2 and one line; it returns that line."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 2)

    def run(*args: str) -> str:
        assert svr_here(*args) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "a bug" not in line
        return line

    return run


EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--method", "longest", "--out", "out")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"audit = {'[' * 3000}", "nested too deep"),
        (f"limit = {'9' * 5000}", "not valid TOML"),
        ("audit = [1, 2]", "audit is list"),
        ("method = {a = 1}", "method is dict"),
        ("domain = [[1]]", "domain is list"),
        ("limit = 07:32:00", "limit is time"),
    ],
)
def test_config_files(told: Told, text: str, says: str) -> None:
    """Values that no flag can be, and TOML that its reader gives up on."""
    Path("c.toml").write_text(text)
    assert says in told(*EVAL, "--config", "c.toml")


def test_judges_toml_that_nests_without_end(told: Told) -> None:
    """It is no valid TOML."""
    Path("judges.toml").write_text(f"[sim]\nmodel = {'[' * 3000}")
    assert "nested too deep" in told("judges")


def test_ranked_rows_say_who_judged_in_texts(told: Told) -> None:
    """What is written into the pairs is what `svr rank` writes, and nothing that cannot be written."""
    row = '{"prompt":"p","responses":["a","b"],"scores":[1,0],"judge":"j","method":"m","bank":%s}\n'
    Path("ranked.jsonl").write_text(row % DEEP)
    assert "as svr rank writes them" in told("pairs", "build", "ranked.jsonl", "--out", "out.jsonl")
    Path("ranked.jsonl").write_text(row.replace("[1,0]", f"[1{'0' * 400},0]") % '""')
    assert "a list of numbers" in told("pairs", "build", "ranked.jsonl", "--out", "out.jsonl")


@pytest.mark.parametrize(("file", "text"), [
    ("odd.toml", 'label = "tab:../../x"\nkind = "overall"\ntitle = "t"'),
    ("banks.toml", '["../x"]\njudge = "oss"'),
    ("judges.toml", '["a/b"]\nlabel = "x"'),
])  # fmt: skip
def test_recipes_name_no_place_elsewhere(tmp_path: Path, file: str, text: str) -> None:
    """Tables, banks and runs lie in --out under such names."""
    (tmp_path / "odd.toml").write_text('label = "tab:x"\nkind = "overall"\ntitle = "t"\n')
    assert [one.short for one in load_recipes(tmp_path).tables] == ["x"]
    (tmp_path / file).write_text(text)
    with pytest.raises(ConfigError, match="a recipe names '"):
        load_recipes(tmp_path)


@pytest.mark.parametrize("line", ["[row]\nx = 1", 'row = "x"', "benchmarks = 3", 'place = "first"', "title = 5",
                                  '[benchmarks.a]\n[[row]]\nnames = ["x"]\nrun = "y"'])  # fmt: skip
def test_recipes(tmp_path: Path, line: str) -> None:
    """Another kind of value than a recipe has there names the file."""
    (tmp_path / "odd.toml").write_text(f'label = "tab:x"\nkind = "overall"\n{line}\n')
    with pytest.raises(ConfigError, match=r"odd\.toml"):
        load_recipes(tmp_path)


@pytest.mark.parametrize("name", ["judges.toml", "banks.toml"])
def test_roles_and_banks_of_recipes_are_tables(tmp_path: Path, name: str) -> None:
    """A text in the place of one names the file."""
    (tmp_path / "one.toml").write_text('label = "tab:x"\ntitle = "t"\nkind = "overall"\n')
    (tmp_path / name).write_text('oss = "x"\n')
    with pytest.raises(ConfigError, match=name):
        load_recipes(tmp_path)


def test_a_recorded_order_that_is_no_text(tmp_path: Path) -> None:
    """It is named."""
    path = tmp_path / "r.jsonl"
    path.write_text('{"pair_id": "a", "order": {}, "role": "direct", "reply": "[[A]]"}\n')
    with pytest.raises(ConfigError, match="has the order"):
        load_recorded(path, {})


def _npz(name: str, content: bytes, path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in ("pair", "rubric", "z"):
            file = io.BytesIO()
            np.save(file, np.zeros(1))
            archive.writestr(f"{member}.npy", content if member == name else file.getvalue())
    return path


def test_arrays_of_ones_own(tmp_path: Path) -> None:
    """What zlib, NumPy's headers and Python's own parser stumble over, members that are no arrays, and a bomb."""
    whole = _npz("", b"", tmp_path / "whole.npz").read_bytes()
    files = {"no array": b"text", "header": b"\x93NUMPY\x01\x00\x10\x00{'descr': (((\n\n\n"}
    for what, content in files.items():
        with pytest.raises(DataError, match=r"z is no array|no npz of plain arrays"):
            read_entries(_npz("z", content, tmp_path / f"{what}.npz"), {}, 1, {"r": 0})
    broken = tmp_path / "broken.npz"
    broken.write_bytes(whole[:45] + b"\xff" * 20 + whole[65:])
    with pytest.raises(DataError):
        read_entries(broken, {}, 1, {"r": 0})
    bomb = tmp_path / "bomb.npz"
    np.savez_compressed(
        bomb, pair=np.zeros(2**25, np.int64), rubric=np.zeros(1, np.int64), z=np.zeros(2**21, np.float32)
    )
    with pytest.raises(DataError, match="would be"):
        read_entries(bomb, {}, 1, {"r": 0})


@pytest.mark.parametrize("value", ["[]", "null", f'{{"stage": {DEEP}, "sha256": ""}}', '{"stage": {}, "sha256": ""}'])
def test_stages_that_somebody_sealed(tmp_path: Path, value: str) -> None:
    """With a checksum that is right for it, what is no stage is refused all the same."""
    (tmp_path / "fit-1.json").write_text(value)
    reseal(tmp_path)
    with pytest.raises(ArtefactError, match=r"fit-1\.json"):
        Stages(tmp_path).load("fit-1", "", lambda values, _: values["x"])


def test_a_stage_without_what_it_should_hold(tmp_path: Path) -> None:
    """It is refused, and can be removed."""
    Stages(tmp_path).save("fit-1", "d", {"y": 1})
    with pytest.raises(ArtefactError, match="does not hold what it should: KeyError 'x'"):
        Stages(tmp_path).load("fit-1", "d", lambda values, _: values["x"])


def test_a_folder_of_data_that_goes_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As folders below /proc do."""

    def gone(folder: Path, _: str) -> Iterator[Path]:
        raise FileNotFoundError(2, "No such file or directory", str(folder / "1"))

    monkeypatch.setattr(Path, "rglob", gone)
    with pytest.raises(DataError, match="cannot be read"):
        data_files(tmp_path)


def test_a_cache_row_whose_count_of_tries_is_no_number() -> None:
    """What is nested without end there could not be written out again."""
    row = orjson.loads(Reply(text="x").to_bytes())
    with pytest.raises(TypeError, match="number of tries"):
        Reply.from_bytes(orjson.dumps(row | {"tries": [[[]]]}))


def test_numbers_of_any_length_in_what_only_the_lenient_reader_takes() -> None:
    """They are read as the strict reader reads them: the nearest number, none where it is not finite."""
    found = json_value(b'{"a": NaN, "b": %d, "c": %s, "d": -7}' % (2**70, b"9" * 5000))
    assert found == {"a": None, "b": float(2**70), "c": None, "d": -7}


def test_settings_and_items_of_run_folders(tmp_path: Path) -> None:
    """Kinds of values that a run never has are named; nothing that could not be written again is read."""
    plain = to_plain(EvalSettings(benchmark="pairs"))
    assert from_plain(json.loads(json.dumps(plain))) == EvalSettings(benchmark="pairs")
    with pytest.raises(TypeError, match=r"columns is 1\.5"):
        from_plain({**plain, "columns": 1.5})
    with pytest.raises(TypeError, match=r"concurrency is 1\.5"):
        from_plain({**plain, "concurrency": 1.5})
    assert JudgeLimits(concurrency=8).concurrency == "8"  # type: ignore[arg-type]
    item = dict.fromkeys(("id", "item", "domain", "subset", "order", "outcome", "detail"), "")
    whole = {**item, "margins": {"ab": 1, "ba": 0.5}, "rubrics": [], "flags": [], "requests": []}
    assert item_problem(whole) == ""
    assert "margins" in item_problem({**whole, "margins": {"ab": 1, "x": 2}})
    assert "flags" in item_problem({**whole, "flags": [[]]})
    endless: list[Any] = []
    for _ in range(5000):
        endless = [endless]
    assert item_problem({**whole, "flags": endless}) == "flags is nested too deep, not a list of texts"
    assert misfit_of(Trial, {"error": endless}) == "error is nested too deep"
    assert item_problem({**whole, "requests": ["0f" * 32]}) == ""
    assert "requests" in item_problem({**whole, "requests": ["0f" * 31 + "xy"]})
    (tmp_path / "items.jsonl").write_text("")
    for name in ("metrics", "manifest"):
        (tmp_path / f"{name}.json").write_text(f'{{"config": {{"a": {DEEP}}}}}')
    with pytest.raises(ArtefactError, match="nested too deep"):
        RunFolder.load(tmp_path)
    for name in ("jury_rule", "order"):
        with pytest.raises(UsageError, match=f"{name} is 'meqn'"):
            from_plain({**plain, name: "meqn"})


@pytest.mark.parametrize("name", ["importance", "facet", "grounding"])
def test_a_candidate_of_a_stage_whose_rubric_holds_no_texts(name: str) -> None:
    """What a rubric is of is looked at, too, not only that there is one."""
    whole = candidate_to_json(Candidate(rubric=Rubric(text="Names a source.")))
    assert candidate_from_json(whole).rubric.text == "Names a source."
    with pytest.raises(TypeError, match="rubric is"):
        candidate_from_json({**whole, "rubric": {**whole["rubric"], name: {"a": 1}}})


@pytest.mark.parametrize("digests", [{"train": 3}, {"train": {}}, {"train": "x" * 5000}])
def test_a_store_whose_digests_no_bank_may_hold(tmp_path: Path, digests: Mapping[str, object]) -> None:
    """They are refused when the store is read, and not when the bank is made of it."""
    meta = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "judge": "j", "prompts_digest": "", "made_of": ""}
    for value, says in (({"train": "x"}, "plan"), (digests, "judge and digests must be texts")):
        (tmp_path / "meta.json").write_text(json.dumps({**meta, "data_digests": value}))
        with pytest.raises(ArtefactError, match=says):
            read_meta(tmp_path)


def test_a_bank_and_a_store_that_nest_without_end(tmp_path: Path) -> None:
    """What could not be written again is not read: a bank's digest is that of what it would write."""
    checked_bank().save(tmp_path)
    described = json.loads((tmp_path / "bank.json").read_text())
    (tmp_path / "bank.json").write_text(json.dumps({**described, "fit_settings": {"a": json.loads(DEEP)}}))
    (tmp_path / "meta.json").write_text(f'{{"plan": {DEEP}}}')
    with pytest.raises(ArtefactError, match="nested too deep"):
        RubricBank.load(tmp_path)
    with pytest.raises(ArtefactError, match="nested too deep"):
        read_meta(tmp_path)


def test_a_store_that_names_a_file_with_a_nul(tmp_path: Path) -> None:
    """No file system has such a name."""
    with pytest.raises(ArtefactError, match="it names a file as"):
        open_verified(tmp_path, {"file": "z\0.npz", "bytes": 1, "sha256": ""})


def test_shards_that_somebody_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A record without a judge is damaged; a digest of the wrong type is that of another run."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", 2)
    assert svr_here(*EVAL, "--shard", "1/2") == 0
    shard, manifest = tmp_path / "out" / "shard.json", tmp_path / "out" / "manifest.json"
    held = json.loads(shard.read_text())
    shard.write_text(json.dumps({**held, "asked": {**held["asked"], "judge": {}}}))
    capsys.readouterr()
    assert svr_here("merge", "out", "--out", "all") == 7
    assert "is damaged" in capsys.readouterr().err
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "digest": {}}))
    assert svr_here(*EVAL, "--shard", "1/2") == 0


def test_a_cache_whose_schema_is_no_text(tmp_path: Path) -> None:
    """SQLite quotes it in what it says of it, which Python cannot read then."""
    path = tmp_path / "cache.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE Settings (key, value)")
        database.commit()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE Settings", b"CREATE T\xf4BLE Settings"))
    with pytest.raises(StorageError, match="no UTF-8"):
        refuse_foreign_database(path)


def test_a_structures_trial_whose_accuracy_is_no_number() -> None:
    """What a kept fit says of its choice is looked at to the last number, before a page sorts by it."""
    trial = Trial(structure=Structure(), accuracy=0.5, error=0.1)
    plain = Choice(structure=Structure(), trials=(trial,)).as_json()
    assert choice_from_values(plain) == Choice(structure=Structure(), trials=(trial,))
    with pytest.raises(TypeError, match="trials is"):
        choice_from_values({**plain, "trials": [{**plain["trials"][0], "accuracy": "much"}]})
