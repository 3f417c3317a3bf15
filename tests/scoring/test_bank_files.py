"""Banks on disk: the same bank comes back, and nothing that was damaged or made with ill will does."""

import contextlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_bank import made_bank

from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ArtefactError, UsageError
from svr_async.fit import tensors
from svr_async.scoring import bank_files
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank

FILES = ("bank.json", "selector.safetensors", "vocabulary.json", "card.md")


class Canary:
    """Unpickling this leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def __reduce__(self) -> tuple[Callable[..., None], tuple[str]]:
        return os.mkdir, (self.mark,)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a saved bank."""
    made_bank().save(tmp_path / "bank")
    return tmp_path / "bank"


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change bank.json in place."""
    path = folder / "bank.json"
    value = orjson.loads(path.read_bytes())
    change(value)
    path.write_bytes(orjson.dumps(value))


def replace_file(folder: Path, name: str, data: bytes) -> None:
    """Put other bytes into a file and their digest into bank.json, as someone with ill will would."""
    (folder / name).write_bytes(data)
    edit(folder, lambda value: value["files"][name].update(sha256=sha256(data).hexdigest(), bytes=len(data)))


def refused(folder: Path) -> str:
    """Return the one-line error that loading gives."""
    with pytest.raises(ArtefactError) as caught:
        RubricBank.load(folder)
    assert caught.value.exit_code == 7
    assert "\n" not in caught.value.one_line()
    return caught.value.one_line()


def test_the_same_bank_comes_back(folder: Path) -> None:
    """Rubrics, arrays, vocabulary, settings and digest survive saving and loading."""
    bank, back = made_bank(), RubricBank.load(folder)
    assert back.rubrics == bank.rubrics
    assert {name: values.tolist() for name, values in back.selector.items()} == {
        name: values.tolist() for name, values in bank.selector.items()
    }
    assert back.idf.tolist() == bank.idf.tolist()
    for name in ("vocabulary", "inference", "fit_settings", "dev_metrics", "data_digests", "notes", "licence", "judge"):
        assert getattr(back, name) == getattr(bank, name)
    assert back.digest == bank.digest


def test_a_bank_remembers_that_the_judge_is_asked_directly(folder: Path, tmp_path: Path) -> None:
    """`direct` comes back, and is written only where it is so: banks without it have the bytes that they had."""
    assert "direct" not in orjson.loads((folder / "bank.json").read_bytes())["inference"]
    made_bank(inference=InferenceSettings(direct=True)).save(tmp_path / "direct")
    assert RubricBank.load(tmp_path / "direct").inference == InferenceSettings(direct=True)
    assert not RubricBank.load(folder).inference.direct


def test_two_saves_are_byte_identical(folder: Path, tmp_path: Path) -> None:
    """Saving twice, or saving what was loaded, gives the same bytes in every file."""
    RubricBank.load(folder).save(tmp_path / "again")
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert [(folder / name).read_bytes() for name in FILES] == [
        (tmp_path / "again" / name).read_bytes() for name in FILES
    ]


def test_digest_follows_the_content(folder: Path) -> None:
    """Another weight, word or array is another digest."""
    bank = made_bank()
    arrays = {**bank.selector, "hidden": bank.selector["hidden"] + 1}
    digests = {bank.digest, made_bank(name="other").digest, made_bank(selector=arrays).digest}
    digests |= {made_bank(vocabulary={"bread": 1, "how long": 0}).digest}
    assert len(digests) == 4


def test_a_bank_without_features_comes_back(tmp_path: Path) -> None:
    """Empty arrays and an empty vocabulary are no obstacle."""
    bank = RubricBank(rubrics=(BankRubric(rubric=Rubric(text="Cites a source")),))
    bank.save(tmp_path)
    assert RubricBank.load(tmp_path).digest == bank.digest


def test_the_card_may_be_edited(folder: Path) -> None:
    """The card is for people: changing or removing it does not break the bank."""
    (folder / "card.md").unlink()
    assert len(RubricBank.load(folder)) == 3


def test_no_bank_there(tmp_path: Path) -> None:
    """A folder without a bank is the user's slip, exit 2; a file in its place is refused, exit 7."""
    with pytest.raises(UsageError, match="there is no bank"):
        RubricBank.load(tmp_path)
    (tmp_path / "bank.pkl").write_bytes(pickle.dumps({}))
    assert "never opened" in refused(tmp_path / "bank.pkl")


@pytest.mark.parametrize("name", FILES[:3])
def test_every_flipped_byte_is_noticed(folder: Path, name: str) -> None:
    """A damaged file never loads as if it were whole."""
    path = folder / name
    data = path.read_bytes()
    good = made_bank().digest
    for place in range(0, len(data), max(1, len(data) // 60)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x21]) + data[place + 1 :])
        try:
            found = RubricBank.load(folder).digest
        except ArtefactError:
            continue
        assert found != good
    path.write_bytes(data)
    assert RubricBank.load(folder).digest == good


@pytest.mark.parametrize("name", FILES[:3])
@pytest.mark.parametrize("kept", [0, 1, 7, 9, 100])
def test_truncated_files_are_refused(folder: Path, name: str, kept: int) -> None:
    """A file that was cut off is refused."""
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: min(kept, len(data) - 1)])
    assert str(folder / name) in refused(folder)


@pytest.mark.parametrize("name", FILES[:3])
def test_pickles_are_refused_and_not_opened(folder: Path, tmp_path: Path, name: str) -> None:
    """Pickled bytes in any file are named as such, and nothing in them runs."""
    data = pickle.dumps(Canary(tmp_path / "mark"))
    if name == "bank.json":
        (folder / name).write_bytes(data)
    else:
        replace_file(folder, name, data)
    assert "pickle" in refused(folder)
    assert not (tmp_path / "mark").exists()


def test_numpy_archives_and_object_arrays_are_refused(folder: Path, tmp_path: Path) -> None:
    """An npz with pickled objects in place of the selector is refused, and nothing in it runs."""
    path = tmp_path / "objects.npz"
    np.savez(path, weight=np.array([Canary(tmp_path / "mark")], dtype=object))
    replace_file(folder, "selector.safetensors", path.read_bytes())
    assert "never opens" in refused(folder)
    assert not (tmp_path / "mark").exists()


def test_parts_of_another_fit_are_refused_with_both_digests(folder: Path, tmp_path: Path) -> None:
    """A selector or vocabulary of another fit is told by its digest; both digests are named."""
    other = made_bank(idf=np.array([9, 9], np.float32), vocabulary={"cheese": 0, "milk": 1})
    other.save(tmp_path / "other")
    for name in ("selector.safetensors", "vocabulary.json"):
        saved = (folder / name).read_bytes()
        shutil.copy(tmp_path / "other" / name, folder / name)
        line = refused(folder)
        assert sha256(saved).hexdigest()[:16] in line
        assert sha256((tmp_path / "other" / name).read_bytes()).hexdigest()[:16] in line
        assert "another fit" in line
        (folder / name).write_bytes(saved)


def test_symbolic_links_and_pipes_are_refused(folder: Path, tmp_path: Path) -> None:
    """Only plain files are read: no link out of the folder, no pipe that never ends."""
    for name in FILES[:3]:
        saved = tmp_path / f"saved-{name}"
        shutil.move(folder / name, saved)
        (folder / name).symlink_to(saved)
        assert "symbolic link" in refused(folder)
        (folder / name).unlink()
        shutil.move(saved, folder / name)
    (folder / "vocabulary.json").unlink()
    os.mkfifo(folder / "vocabulary.json")
    assert "no plain file" in refused(folder).replace("not a plain", "no plain")


def test_oversized_files_are_refused_before_they_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file above its cap is refused by its size."""
    monkeypatch.setitem(bank_files.MAX_BYTES, "vocabulary.json", 10)
    assert "at most 10 are allowed" in refused(folder)


def header(arrays: dict[str, Any]) -> bytes:
    """Return safetensors bytes with this header and as many zero bytes as it claims, at most 64."""
    text = json.dumps(arrays).encode()
    return len(text).to_bytes(8, "little") + text + b"\0" * 64


def entry(shape: list[int | bool], start: int, stop: int, dtype: str = "F32") -> dict[str, Sequence[str | int]]:
    """Return a header's entry."""
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, stop]}


@pytest.mark.parametrize(
    "data",
    [
        b"\xff" * 7 + b"\x7f" + b"{}",
        (1 << 62).to_bytes(8, "little") + b"{}",
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"{]}",
        header({"a": entry([8], 0, 64, "F64")}),
        header({"a": entry([16], 0, 64, "O")}),
        header({"a": entry([1 << 40, 1 << 40], 0, 64)}),
        header({"a": entry([-4, -4], 0, 64)}),
        header({"a": entry([16], 64, 0)}),
        header({"a": entry([8], 0, 32)}),
        header({"a": entry([16], 0, 64), "b": entry([8], 32, 64)}),
        header({"a": {"dtype": "F32", "shape": [16]}}),
        header({"a": 5}),
        header({"a": entry([16], 0, 64)}),
    ],
)
def test_hostile_selectors_are_refused(folder: Path, data: bytes) -> None:
    """Header bombs, overlaps, absurd shapes, other types and other arrays are refused in one line."""
    replace_file(folder, "selector.safetensors", data)
    assert re.search("not a valid safetensors|must be float32|lacks the array", refused(folder))


def set_in(*path: str | int, value: Any) -> Callable[..., None]:
    """Return a change of bank.json that sets one value."""

    def change(described: Any) -> None:
        *way, last = path
        for key in way:
            described = described[key]
        described[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (set_in("schema_version", value=2), "schema version is 2"),
        (set_in("schema_version", value=True), "schema version is True"),
        (set_in("format", value="other"), "svr-bank"),
        (set_in("rubrics", value=[]), "at least one rubric"),
        (set_in("rubrics", value={}), "'rubrics' holds dict"),
        (set_in("rubrics", 1, value=None), "rubric number 2"),
        (set_in("rubrics", 0, "weight", value=-1), "weight must be >= 0"),
        (set_in("rubrics", 0, "weight", value="1"), "not a number"),
        (set_in("rubrics", 0, "weight", value=0.7), "differs from the selector's"),
        (set_in("rubrics", 0, "text", value="Something else"), "not the hash of its text"),
        (set_in("rubrics", 0, "text", value=""), "needs a text"),
        (set_in("rubrics", 0, "id", value=""), "not the hash|needs|id"),
        (set_in("rubrics", 0, "aliases", value=[1]), "not a text"),
        (set_in("rubrics", 0, "check", value={"name": 5}), "check"),
        (set_in("rubrics", 0, "check", value={"name": "max_words", "args": {"n": {}}}), "argument"),
        (set_in("rubrics", 0, "observed_count", value=1.5), "observed_count"),
        (set_in("inference", "top_k", value=0), "top_k must be"),
        (set_in("inference", "filler_weight", value=None), "filler_weight"),
        (set_in("inference", value=[]), "'inference' holds list"),
        (set_in("selector", "kind", value="uniform2" * 99), "selector_kind"),
        (set_in("selector", "arrays", value={}), "expects the selector array"),
        (set_in("selector", "arrays", "hidden", value=[4, 2]), "'hidden' as \\[4, 2\\]"),
        (set_in("files", value={}), "'selector.safetensors' is missing"),
        (set_in("files", "vocabulary.json", value={}), "'sha256' is missing"),
        (set_in("data_digests", value={"a": 1}), "'a' holds int"),
        (set_in("notes", value="text"), "'notes' holds str"),
        (lambda described: described.pop("judge"), "'judge' is missing"),
        (lambda described: described["rubrics"].append(described["rubrics"][0]), "occurs twice"),
    ],
)
def test_values_that_a_bank_cannot_have_are_refused(
    folder: Path, change: Callable[..., None] | Callable[..., Any], problem: str
) -> None:
    """Wrong types, ranges, ids, shapes and versions in bank.json are refused with the field's name."""
    edit(folder, change)
    assert re.search(problem, refused(folder))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"{", "not JSON"),
        (b"[1]", "holds list"),
        (b'{"a": 0, "b": 1.0}', "no whole number"),
        (b'{"a": 0, "b": true}', "no whole number"),
        (b'{"a": 0}', "1 terms, idf has shape"),
        (b'{"a": 0, "b": 5}', "number its terms"),
        (b'{"a": 0, "b": 99999999999999999999999}', "no whole number|number its terms"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_hostile_vocabularies_are_refused(folder: Path, data: bytes, problem: str) -> None:
    """A vocabulary of other types, numbers or sizes is refused."""
    replace_file(folder, "vocabulary.json", data)
    assert re.search(problem, refused(folder))


def test_arrays_that_are_not_finite_are_refused(folder: Path) -> None:
    """NaN in the selector does not load, even with the right digest."""
    arrays = tensors.unpack((folder / "selector.safetensors").read_bytes())
    arrays["hidden"] = np.full_like(arrays["hidden"], np.nan)
    replace_file(folder, "selector.safetensors", tensors.pack(arrays))
    assert "not finite" in refused(folder)


def test_a_bank_with_no_rubrics_says_what_to_do(folder: Path) -> None:
    """The advice: train one, or judge without a bank."""
    edit(folder, set_in("rubrics", value=[]))
    assert "svr train" in refused(folder)


def test_an_interrupted_overwrite_is_refused_rather_than_mixed(folder: Path, tmp_path: Path) -> None:
    """Where a newer selector was written and bank.json was not, the folder does not load as either bank."""
    other = bank_files.bank_contents(made_bank(idf=np.array([9, 9], np.float32)))
    (folder / "selector.safetensors").write_bytes(other["selector.safetensors"])
    assert "of another fit" in refused(folder)
    made_bank(idf=np.array([9, 9], np.float32)).save(folder)
    assert RubricBank.load(folder).idf.tolist() == [9, 9]


def test_safetensors_of_others_can_read_ours_and_we_theirs(folder: Path, tmp_path: Path) -> None:
    """The selector is a safetensors file like any other."""
    from safetensors.numpy import load_file, save_file

    ours = load_file(folder / "selector.safetensors")
    assert sorted(ours) == ["features.idf", "hidden", "output_bias", "weight"]
    arrays = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.zeros((0, 4), np.float32)}
    save_file(arrays, tmp_path / "theirs.safetensors", metadata={"kind": "mlp"})
    read = tensors.unpack((tmp_path / "theirs.safetensors").read_bytes())
    assert {name: values.tolist() for name, values in read.items()} == {n: v.tolist() for n, v in arrays.items()}


ARRAYS = st.dictionaries(
    st.text(max_size=8).filter(lambda name: name != "__metadata__" and name.isprintable()),
    st.lists(st.integers(0, 3), max_size=3),
    max_size=4,
)


@given(shapes=ARRAYS, seed=st.integers(0, 9))
@settings(deadline=None)
def test_arrays_survive(shapes: dict[str, list[int]], seed: int) -> None:
    """Any named float arrays come back as they were."""
    rng = np.random.default_rng(seed)
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    back = tensors.unpack(tensors.pack(arrays))
    assert sorted(back) == sorted(arrays)
    assert all(
        np.array_equal(back[name], values) and back[name].shape == values.shape for name, values in arrays.items()
    )


@given(data=st.binary(max_size=200))
@settings(deadline=None, max_examples=300)
def test_any_bytes_are_arrays_or_refused(data: bytes) -> None:
    """Whatever a file holds, reading it gives arrays or a ValueError, and no other error."""
    with contextlib.suppress(ValueError):
        tensors.unpack(data)


texts = st.text(min_size=1, max_size=60).filter(
    lambda text: text.strip() and not any("\ud800" <= c <= "\udfff" for c in text)
)


@given(words=texts, weight=st.floats(0, 1e6), alias=texts)
@settings(deadline=None, max_examples=50)
def test_any_text_and_weight_survive(
    tmp_path_factory: pytest.TempPathFactory, words: str, weight: float, alias: str
) -> None:
    """Rubrics in any script and weights of any size come back to the last bit."""
    folder = tmp_path_factory.mktemp("bank")
    entry = BankRubric(
        rubric=Rubric(text=words, check=Check.of("x", words=("a", "b"))), weight=weight, aliases=(alias,)
    )
    RubricBank(rubrics=(entry,), name=alias).save(folder)
    assert RubricBank.load(folder).rubrics == (entry,)


def test_a_bank_that_could_not_be_read_again_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Larger than what is read: refused with its size and the limit, before the bank that lies there is touched."""
    made_bank().save(tmp_path / "bank")
    before = {path.name: path.read_bytes() for path in (tmp_path / "bank").iterdir()}
    for name in ("bank.json", "vocabulary.json", "selector.safetensors"):
        with monkeypatch.context() as limits:
            limits.setitem(bank_files.MAX_BYTES, name, len(before[name]) - 1)
            with pytest.raises(ArtefactError, match=rf"{name} would have {len(before[name]):,} bytes"):
                made_bank().save(tmp_path / "bank")
    assert {path.name: path.read_bytes() for path in (tmp_path / "bank").iterdir()} == before
