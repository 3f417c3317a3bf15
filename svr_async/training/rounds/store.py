"""Feature stores: what a fit reads, in one folder of plain files that is written once.

`svr train` leaves one for each round in OUT/stores/round-N. docs/store.md has every file with its types and shapes.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from svr_async.core.files import read_plain, reason, write_atomic, write_atomic_with
from svr_async.core.integrity import Integrity
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.similarity import REDUNDANCY_CUTOFF
from svr_async.errors import ArtefactError, DataError, SvrError, UsageError
from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays, keep_entries
from svr_async.fit.forward import Selector, alpha_numpy
from svr_async.fit.tfidf import Vocabulary
from svr_async.scoring.bank import BankHistory, BankRubric, RubricBank, TrainedOn
from svr_async.scoring.bank_files import rubric_json, rubric_of
from svr_async.training.bank.merge import EXAMPLES, bank_rubric, main_domain
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import (
    FittedRound,
    IndexedBank,
    JudgedRound,
    Session,
    rated,
    source_names,
    source_numbers,
)

if TYPE_CHECKING:
    import pyarrow as pa

META = "meta.json"
ARRAYS = (
    "feature_indptr", "feature_index", "feature_value", "pair_prompt", "negative_of",
    "z_indptr", "z_rubric", "z_delta", "z_own", "z_weight",
)  # fmt: skip
KEPT = (
    "text", "facet", "importance", "grounding", "check", "source_pair_ids", "observed_count", "support_count",
    "aliases", "criterion",
)  # fmt: skip
BEFORE_EQUALS = 1e-9  # breaks ties only: far below the difference of two alphas in single precision
DIRECT = (
    "On held-out prompts the fit was no better than guessing, so with this bank the judge is asked directly. "
    "--top-k uses the rubrics anyway."
)
Features = tuple[NDArray[np.integer], NDArray[np.float32]]
WRITE_HINT = "choose another folder for the store"
RUBRICS_HINT = 'a line is {"text": …}, as svr stages induce writes them'


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """meta.json. `config` is that of the training that judged: how the store is fitted by default.

    `round` is 0 outside of a training; `last` is whether no further round would judge more.
    """

    format: Literal["svr-feature-store"] = "svr-feature-store"
    schema_version: Literal[6] = 6
    judge: str = ""
    marks: tuple[Integrity, ...] = ()
    prompts_digest: str = ""
    pairs_digest: str = ""
    config: TrainConfig
    round: int = 0
    last: bool = True
    files: dict[str, str] = {}


class FeatureStore(msgspec.Struct, kw_only=True):
    """A store in memory.

    `pairs` has a row for each row of `arrays`: pair_id, domain, source, dev; `prompt` too until it is written.
    `measured` marks entries that were judged only to measure the bank, which no fit sees.
    """

    header: Header
    vocabulary: Vocabulary
    rubrics: Sequence[BankRubric]
    pairs: pa.Table
    arrays: FitArrays
    measured: NDArray[np.bool_] | None = None

    @property
    def is_dev(self) -> NDArray[np.bool_]:
        """Whether each pair is held out (n_pairs,)."""
        flags: NDArray[np.bool_] = self.pairs["dev"].to_numpy()
        return flags

    @property
    def counts(self) -> tuple[int, int]:
        """The numbers of training and dev pairs, without hard negatives."""
        return int((self.arrays.originals & ~self.is_dev).sum()), int(self.is_dev.sum())


def pair_table(train: Sequence[PreferencePair], dev: Sequence[PreferencePair], sources: Sequence[str]) -> pa.Table:
    """Return the rows of pairs.parquet: pairs to fit on, hard negatives included, then dev pairs."""
    import pyarrow as pa

    pairs = [*train, *dev]
    columns = {
        "pair_id": [pair.id for pair in pairs],
        "prompt": [prompt_text(pair.prompt) for pair in pairs],
        "domain": [pair.domain for pair in pairs],
        "source": list(sources),
        "dev": [place >= len(train) for place in range(len(pairs))],
    }
    types = (pa.string(), pa.large_string(), pa.string(), pa.string(), pa.bool_())
    return pa.table(columns, schema=pa.schema(list(zip(columns, types, strict=True))))


# ── rubrics as lines ────────────────────────────────────────────────────────────────────────────────────────────────


def rubric_lines(rubrics: Iterable[BankRubric]) -> bytes:
    """Return rubrics as JSON Lines: what is known of them before a fit, under the names of bank.json."""
    lines = ({name: value for name in KEPT if (value := plain.get(name))} for plain in map(rubric_json, rubrics))
    return msgspec.json.Encoder().encode_lines(lines)


def read_rubrics(path: Path) -> list[tuple[str, BankRubric]]:
    """Read a file of rubrics, each with the name that its `id` gives it; DataError names the line that is invalid."""
    try:
        lines = read_plain(path).splitlines()
    except OSError as error:
        raise DataError(f"cannot read '{path}': {reason(error)}", hint=RUBRICS_HINT) from error
    found = []
    for number, text in enumerate(lines, 1):
        if text.strip():
            try:
                values = msgspec.json.decode(text, type=dict[str, Any])
                found.append((str(values.pop("id", "")), rubric_of(values)))
            except ValueError as error:
                raise DataError(f"{path} line {number} is not a rubric: {error}", hint=RUBRICS_HINT) from error
    if not found:
        raise DataError(f"{path} holds 0 rubrics", hint=RUBRICS_HINT)
    return found


# ── writing and reading ─────────────────────────────────────────────────────────────────────────────────────────────


def write_store(folder: Path, store: FeatureStore, *, replace_other: bool = False) -> None:
    """Write a store, whole or not at all; UsageError if the folder holds anything but this very store.

    `replace_other` replaces whatever the folder holds.
    """
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    header = _write_files(part, store)
    if folder.exists() and not replace_other:
        same = (folder / META).is_file() and read_header(folder) == header
        shutil.rmtree(part)
        if not same:
            raise store_exists(folder)
        return
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)


def store_exists(folder: Path) -> UsageError:
    """Return the error for a store that would replace something else."""
    return UsageError(f"{folder} exists already", hint="name another folder with --out, or remove it")


def _write_files(folder: Path, store: FeatureStore) -> Header:
    from pyarrow import parquet

    arrays = {name: getattr(store.arrays, name) for name in ARRAYS}
    arrays |= {"z_measured": store.measured, "idf": store.vocabulary.idf}
    table = partial(parquet.write_table, store.pairs, compression="zstd")
    write_atomic_with(folder / "pairs.parquet", table, hint=WRITE_HINT)
    write_atomic(folder / "rubrics.jsonl", rubric_lines(store.rubrics), hint=WRITE_HINT)
    write_atomic(folder / "vocabulary.json", store.vocabulary.to_json().encode(), hint=WRITE_HINT)
    for name, values in arrays.items():
        if values is not None:
            save = partial(np.save, arr=values, allow_pickle=False)
            write_atomic_with(folder / f"{name}.npy", save, hint=WRITE_HINT)
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir())}
    header = msgspec.structs.replace(store.header, files=files)
    write_atomic(folder / META, msgspec.json.encode(header, order="deterministic") + b"\n", hint=WRITE_HINT)
    return header


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_header(folder: Path) -> Header:
    """Return meta.json; UsageError if the folder holds no store, naming the stores of its rounds if there are any."""
    path = folder / META
    if not path.is_file():
        rounds = sorted(folder.glob("stores/round-*"), key=lambda place: (len(place.name), place.name))
        hint = (
            f"name the store of a round: {rounds[-1]}"
            if rounds
            else "svr stages judge makes one; svr train OUT leaves one for each round in OUT/stores/round-N"
        )
        raise UsageError(f"'{folder}' holds no feature store ({META} is missing)", hint=hint)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Header)
    except (ValueError, SvrError) as error:
        raise _refused(path, str(error)) from error


def load_store(folder: str | Path) -> FeatureStore:
    """Read and check a store; UsageError if it is missing, ArtefactError naming the file that fails a check.

    Arrays are mapped: pages that are read take memory, and only while there is room.
    """
    from pyarrow import parquet

    folder = Path(folder)
    header = read_header(folder)
    for name, digest in header.files.items():
        if not (folder / name).is_file():
            raise _refused(folder / name, "it is missing")
        if _sha256(folder / name) != digest:
            raise _refused(folder / name, f"it does not match the SHA-256 in {META}: damaged, or of another store")
    try:
        rubrics = tuple(rubric for _, rubric in read_rubrics(folder / "rubrics.jsonl"))
        terms = msgspec.json.decode((folder / "vocabulary.json").read_bytes(), type=dict[str, int])
        names = [name for name in (*ARRAYS, "z_measured", "idf") if f"{name}.npy" in header.files]
        mapped = {name: np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in names}
        arrays: dict[str, Any] = {name: values.view(np.ndarray) for name, values in mapped.items()}
        # Arrow's own threads may abort the interpreter at its end (apache/arrow issue 34314).
        columns = ["pair_id", "domain", "source", "dev"]
        pairs = parquet.read_table(folder / "pairs.parquet", columns=columns, use_threads=False, pre_buffer=False)
        return FeatureStore(
            header=header,
            vocabulary=Vocabulary(terms=terms, idf=arrays.pop("idf")),
            measured=arrays.pop("z_measured", None),
            rubrics=rubrics,
            pairs=pairs.combine_chunks(),
            arrays=FitArrays(n_rubrics=len(rubrics), n_features=max(1, len(terms)), **arrays),
        )
    except (ValueError, TypeError, KeyError, OSError, ArtefactError, DataError) as error:
        raise _refused(folder, " ".join(str(error).split())[:200]) from error


def _refused(path: Path, problem: str) -> ArtefactError:
    return ArtefactError(f"{path} is refused: {problem}", hint="judge again; what was judged is in the cache")


# ── rounds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def round_store(session: Session, judged: JudgedRound, header: Header) -> FeatureStore:
    """Return the store of a round: its merged bank, all pairs, the hard negatives of rounds before, every entry."""
    material, train, dev = session.material, judged.train, judged.measured
    negatives = [negative.pair for negative in judged.negatives]
    sources = [*source_names(material.train, judged.negatives), *source_names(material.dev, ())]
    seen = np.isin(_keys(dev), _keys(judged.dev), assume_unique=True)
    return FeatureStore(
        header=msgspec.structs.replace(header, round=judged.number, last=judged.last),
        vocabulary=material.vocabulary,
        rubrics=judged.bank,
        pairs=pair_table([*material.train, *negatives], material.dev, sources),
        arrays=_joined(train, dev),
        measured=None if seen.all() else np.concatenate([np.zeros(train.n_entries, bool), ~seen]),
    )


def _joined(train: FitArrays, dev: FitArrays) -> FitArrays:
    """Return the rows of train pairs and of dev pairs in one."""
    parts = ("pair_prompt", "z_rubric", "z_delta", "z_own")
    joined: dict[str, Any] = {name: np.concatenate([getattr(train, name), getattr(dev, name)]) for name in parts}
    if train.negative_of is not None:
        joined["negative_of"] = np.append(train.negative_of, np.full(dev.n_pairs, -1, np.int32))
    borders = np.append(train.z_indptr, train.n_entries + dev.z_indptr[1:])
    return replace(train, z_indptr=borders, pair_source=None, **joined)


def _keys(arrays: FitArrays) -> NDArray[np.int64]:
    return ragged.row_ids(arrays.z_indptr) * arrays.n_rubrics + arrays.z_rubric


def stored_round(store: FeatureStore, *, cutoff: float = REDUNDANCY_CUTOFF) -> JudgedRound:
    """Return a store as a round; of a round's own store it is what training had in memory, array by array."""
    is_dev, held = store.is_dev, store.arrays
    train = np.flatnonzero(~is_dev)
    rows = zip(store.pairs["pair_id"].take(train).to_pylist(), held.pair_prompt[train].tolist(), strict=True)
    bank = IndexedBank.of(store.rubrics, dict(rows), {}, redundancy_cutoff=cutoff)
    whole = replace(held, **bank.arrays)
    fitted = whole if store.measured is None else keep_entries(whole, ~store.measured)
    return JudgedRound(
        number=store.header.round,
        bank=bank.rubrics,
        train=_side(store, fitted, train),
        dev=_side(store, fitted, np.flatnonzero(is_dev)),
        measured=_side(store, whole, np.flatnonzero(is_dev)),
        last=store.header.last,
    )


def _side(store: FeatureStore, arrays: FitArrays, rows: NDArray[np.int64]) -> FitArrays:
    """Return the rows of one side of the split, without entries that weigh nothing."""
    part = arrays.take_pairs(rows).without_weightless()
    of = part.negative_of
    return replace(
        part,
        negative_of=None if of is None or bool((of < 0).all()) else of.astype(np.int32),
        pair_source=source_numbers(store.pairs["source"].take(rows).to_pylist()),
    )


# ── the bank of a fit ─────────────────────────────────────────────────────────────────────────────────────────────────


def store_bank(
    store: FeatureStore,
    fitted: FittedRound,
    config: TrainConfig,
    *,
    history: BankHistory,
    source: str = "",
    contaminated: int | None = None,
    **fields: Any,
) -> RubricBank:
    """Return the bank of a fit of a store: rubrics with weight, rate, domain and examples; `fields` of `RubricBank`.

    The `history` may have the curves of all rounds; else it gets those of this fit.
    """
    selector, header, pairs = fitted.selector, store.header, np.flatnonzero(~store.is_dev)
    ids, domains = (store.pairs[name].take(pairs).to_pylist() for name in ("pair_id", "domain"))
    first = np.sort(np.unique(store.arrays.pair_prompt[pairs], return_index=True)[1])
    first = first[rated(len(first))]
    prompts = [(ids[place], store.arrays.features(int(store.arrays.pair_prompt[pairs[place]]))) for place in first]
    n_train, n_dev = store.counts
    return RubricBank(
        rubrics=describe(fitted.bank, selector, prompts, dict(zip(ids, domains, strict=True))),
        selector_kind=selector.kind,
        selector=selector.tensors(),
        vocabulary=store.vocabulary.terms,
        idf=store.vocabulary.idf,
        inference=fitted.settings,
        fit_settings=asdict(config),
        notes=(DIRECT,) if fitted.settings.direct else (),
        judge=header.judge,
        marks=frozenset(header.marks),
        prompts_digest=header.prompts_digest,
        data_digests={"pairs": header.pairs_digest},
        history=replace(
            history,
            trained_on=TrainedOn(
                train_pairs=n_train,
                dev_pairs=n_dev,
                source=source,
                preset=config.preset,
                ablate=config.ablate,
                contaminated=contaminated,
            ),
            curves=history.curves or fitted.curves,
            chosen_round=fitted.number,
            choice=fitted.choice,
            chosen_seed=fitted.curves[-1].seed,
            **fitted.accuracies,
        ),
        **fields,
    )


def describe(
    bank: Sequence[BankRubric],
    selector: Selector,
    prompts: Sequence[tuple[str, Features]],
    domains: Mapping[str, str],
) -> tuple[BankRubric, ...]:
    """Return the rubrics with weight, mean alpha and the prompts that activate each most.

    `prompts` are (pair id, features) of the training prompts that are rated, each once. Of equals, as all prompts of a
    cluster are, those that the rubric was mined from come first, then the earlier.
    """
    total, best = np.zeros(len(bank)), np.zeros((len(bank), EXAMPLES))
    places = np.full((len(bank), EXAMPLES), -1, dtype=np.int64)
    every = np.arange(len(bank))
    mined: dict[str, list[int]] = {}
    for place, candidate in enumerate(bank):
        for pair_id in candidate.source_pair_ids:
            mined.setdefault(pair_id, []).append(place)
    for number, (pair_id, features) in enumerate(prompts):
        alpha = alpha_numpy(selector, *features).astype(np.float64)
        total += alpha
        alpha[[place for place in mined.get(pair_id, ()) if alpha[place] > 0]] += BEFORE_EQUALS
        lowest = np.where(best == best.min(axis=1, keepdims=True), places, -2).argmax(axis=1)  # of equals, the latest
        better = alpha > best[every, lowest]
        best[better, lowest[better]] = alpha[better]
        places[better, lowest[better]] = number
    rates = np.minimum(1.0, total / max(1, len(prompts)))
    order = np.lexsort((places, -best))
    return tuple(
        bank_rubric(
            candidate,
            weight=float(selector.weight[place]),
            activation_rate=float(rates[place]),
            example_prompts=tuple(prompts[int(n)][0] for n in places[place][order[place]] if n >= 0),
            domain=main_domain(candidate.source_pair_ids, domains),
        )
        for place, candidate in enumerate(bank)
    )
