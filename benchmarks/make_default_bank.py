"""Make the bank that ships with the package: convert public pairs, train offline, keep little, measure, write the card.

    python benchmarks/make_default_bank.py --pandalm FILE --dpo FILE --hhh FILE \
        --llmbar FOLDER --rmb FOLDER --work FOLDER        # writes svr_async/scoring/default_bank/

Only general sets whose licence allows it are trained on (`SOURCES`), 20 % of their prompts held out. LLMBar, the sets
that come with it and RMB are only measured on. The work folder gets the converted pairs and the stages; nothing of the
data goes into the bank but single words and pairs of words of the prompts, and of those only plain ones
(`plain_vocabulary`). At the end the script says whether the bank is good enough to stand in where no bank is named
(`svr_async.scoring.shipped.STANDS_IN`).
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from svr_async.adapters import get_adapter
from svr_async.commands.train.run import (
    TrainFlags,
    open_judge,
    open_session,
    train_config,
    training_pairs,
    usable,
)
from svr_async.commands.train.screen import TrainScreen
from svr_async.fit.tfidf import Vocabulary, learn
from svr_async.judges.rules.danger import danger
from svr_async.judges.rules.lexicon import PROFANITY
from svr_async.judges.rules.text import TextView
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_history import TrainedOn
from svr_async.training.banking import build_bank
from svr_async.training.choosing import chosen_round
from svr_async.training.fit_log import FitLog, training_history
from svr_async.training.problem import Prompts
from svr_async.training.rounds import run_rounds
from svr_async.training.session import Material
from svr_async.training.stages import digest_of
from svr_async.vocabulary.pair import PreferencePair, hashed_fraction, parse_prompt, prompt_text
from svr_async.vocabulary.splits import split_by_prompt

TARGET = Path(__file__).parents[1] / "svr_async/scoring/default_bank"
SVR = Path(sys.executable).with_name("svr")
HELD_OUT = 0.2
SALT = "default-bank"
TERMS = 1_000
EVERYDAY = ("pandalm", "dpo")  # sets of everyday requests
ENOUGH_PROMPTS = 3
RMB_PAIRS = 3_000
ROUNDS = 3
METHODS = {"longest": ("--method", "longest"), "general checks": ("--method", "vanilla")}
_WORD = re.compile(r"[a-z]{2,18}")
_CAPITAL = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")
_SMALL = re.compile(r"\b[a-z]+\b")
_EMBEDDED = re.compile(
    r"###The instruction to evaluate:\n(.*?)\n+###Response to evaluate:\n(.*?)\n+###Score Rubrics:", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A set that is trained on: its key here, what it is, its licence and where it comes from."""

    key: str
    title: str
    licence: str
    home: str


SOURCES = (
    Source(
        key="pandalm",
        title="PandaLM test set, preferences of three people",
        licence="Apache-2.0",
        home="github.com/WeOpenML/PandaLM",
    ),
    Source(
        key="dpo",
        title="LLaMA-Factory's English DPO demo",
        licence="Apache-2.0",
        home="github.com/NiuTrans/GRAM, data/dpo_en_demo.json",
    ),
    Source(
        key="hhh",
        title="HHH alignment in the form of Prometheus-Eval",
        licence="Apache-2.0",
        home="github.com/prometheus-eval/prometheus-eval",
    ),
)


# ── pairs ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def read_source(key: str, path: Path) -> list[PreferencePair]:
    """Return the usable pairs of a source, with its key as domain and in front of each id."""
    pairs = read_embedded(path) if key == "hhh" else get_adapter("pairs").load(path, lenient=True).pairs
    return [replace(pair, id=f"{key}-{pair.id}", domain=key, subset="") for pair in pairs if usable(pair)]


def read_embedded(path: Path) -> list[PreferencePair]:
    """Return the pairs of a file whose rows hold two whole grading requests, which say the prompt and a response."""
    pairs = []
    for number, row in enumerate(json.loads(gzip.decompress(path.read_bytes()))):
        found = [_EMBEDDED.search(row[name]) for name in ("chosen_instruction", "rejected_instruction")]
        (prompt, chosen), (other, rejected) = ((match[1].strip(), match[2].strip()) for match in found if match)
        if prompt == other:
            pairs.append(
                PreferencePair(
                    id=str(number),
                    prompt=parse_prompt(prompt),
                    chosen=chosen,
                    rejected=rejected,
                    chosen_first=hashed_fraction(SALT, str(number)) < 0.5,
                )
            )
    return pairs


def capped(pairs: Sequence[PreferencePair], most: int) -> list[PreferencePair]:
    """Return at most so many pairs: those whose ids hash lowest, in their order."""
    rank = sorted(pairs, key=lambda pair: hashed_fraction(SALT, pair.id))[:most]
    kept = {pair.id for pair in rank}
    return [pair for pair in pairs if pair.id in kept]


def write_pairs(path: Path, pairs: Iterable[PreferencePair]) -> Path:
    """Write pairs as `svr` reads them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for pair in pairs:
            row = {
                "id": pair.id,
                "prompt": [{"role": turn.role, "content": turn.content} for turn in pair.prompt],
                "response_a": pair.response_a,
                "response_b": pair.response_b,
                "label": "A" if pair.chosen_first else "B",
                "domain": pair.domain,
            }
            file.write(json.dumps(row) + "\n")
    return path


def read_llmbar(folder: Path, part: str) -> list[PreferencePair]:
    """Return the pairs of a part of LLMBar's folder, each of its sets a domain."""
    files = sorted((folder / part).rglob("dataset.json*"))
    pairs: list[PreferencePair] = []
    for path in files:
        name = path.parent.name
        found = get_adapter("pairs").load(path, lenient=True).pairs
        pairs += [replace(pair, id=f"{name}-{pair.id}", domain=name) for pair in found]
    return pairs


def read_rmb(folder: Path) -> list[PreferencePair]:
    """Return pairs of RMB from the half of its prompts that the weights of the general checks were not fitted on."""
    pairs = get_adapter("rmb").load(folder / "Pairwise_set").pairs
    return capped([pair for pair in pairs if _in_held_half(pair)], RMB_PAIRS)


def _in_held_half(pair: PreferencePair) -> bool:
    turns = json.dumps([[turn.role, turn.content] for turn in pair.prompt])
    return bool(hashlib.sha256(turns.encode()).digest()[0] & 1)  # as benchmarks/paper/general_checks.py has it


# ── the words that the selector may look at ─────────────────────────────────────────────────────────────────────────


def plain_vocabulary(pairs: Sequence[PreferencePair]) -> Vocabulary:
    """Return the most frequent terms of the prompts whose words are plain.

    A plain word has 2 to 18 letters a to z, is no swear word, is not mostly written with a capital within sentences (as
    names are), and occurs in at least three prompts of everyday sets or is one of the package's own words for harm.
    """
    texts = list(dict.fromkeys(prompt_text(pair.prompt) for pair in pairs))
    everyday = Counter(word for text in _everyday(pairs) for word in set(_WORD.findall(text.lower())))
    capital = Counter(word.lower() for text in texts for word in _CAPITAL.findall(text))
    small = Counter(word for text in texts for word in _SMALL.findall(text))

    def plain(word: str) -> bool:
        known = everyday[word] >= ENOUGH_PROMPTS or danger(TextView(word)) > 0
        return bool(_WORD.fullmatch(word)) and known and word not in PROFANITY and capital[word] <= small[word]

    learned = learn(texts)
    kept = sorted(term for term in learned.terms if all(map(plain, term.split())))
    often = sorted(kept, key=lambda term: (float(learned.idf[learned.terms[term]]), term))[:TERMS]
    terms = {term: place for place, term in enumerate(sorted(often))}
    return Vocabulary(terms=terms, idf=np.array([learned.idf[learned.terms[t]] for t in terms], dtype=np.float32))


def _everyday(pairs: Sequence[PreferencePair]) -> list[str]:
    return list(dict.fromkeys(prompt_text(pair.prompt) for pair in pairs if pair.domain in EVERYDAY))


def with_vocabulary(material: Material, vocabulary: Vocabulary) -> Material:
    """Return what training starts from, with another vocabulary."""
    return replace(
        material,
        vocabulary=vocabulary,
        prompts=Prompts.of(material.pairs, vocabulary),
        digest=digest_of(material.digest, sorted(vocabulary.terms)),
    )


# ── training ────────────────────────────────────────────────────────────────────────────────────────────────────────


async def train(path: Path, out: Path) -> RubricBank:
    """Train on a file of pairs as `svr train --judge rules` does, with the plain vocabulary."""
    flags = train_flags(path, out)
    dataset = get_adapter("pairs").load(path)
    pairs = training_pairs(dataset, flags)
    judge = open_judge(flags)
    with TrainScreen(None, quiet=True) as screen:
        log = FitLog(watch=screen)
        session = open_session(flags, train_config(flags), dataset, pairs, judge, screen=screen, log=log)
        session.material = with_vocabulary(session.material, plain_vocabulary(session.material.train))
        rounds = await run_rounds(session)
    material = session.material
    best = chosen_round(rounds, len(material.dev))
    trained_on = TrainedOn(
        train_pairs=len(material.train),
        dev_pairs=len(material.dev),
        source=", ".join(source.key for source in SOURCES),
        preset=flags.preset,
        ablate=(),
        contaminated=None,
    )
    facts = {"accuracy": best.dev_accuracy, "pairs": len(material.dev), "round": best.number}
    history = training_history(log, rounds, best, trained_on, [])
    return build_bank(session, best, facts=facts, licence=flags.licence, judge=judge.label, history=history)


def train_flags(path: Path, out: Path) -> TrainFlags:
    """Return the flags of `svr train PATH --judge rules --out OUT`."""
    return TrainFlags(
        pairs=path,
        adapter="pairs",
        judge="rules",
        base_url="",
        out=out,
        rounds=ROUNDS,
        preset="default",
        pool=None,
        pool_size=18,
        top_k=None,
        ablate=(),
        decontaminate=(),
        limit=None,
        seed=42,
        concurrency="auto",
        budget=None,
        max_calls=None,
        prompts=None,
        memo=out / "memo",
        licence="apache-2.0",
        quiet=True,
        as_json=False,
    )


# ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────


def slimmed(bank: RubricBank) -> RubricBank:
    """Return the bank without rubrics that no training prompt selects, ids of pairs, and words that change nothing."""
    kept = np.array([place for place, entry in enumerate(bank.rubrics) if entry.activation_rate > 0], dtype=np.int64)
    selector = {name: np.array(values) for name, values in bank.selector.items()}
    selector |= {name: selector[name][kept] for name in ("output", "output_bias", "weight")}
    rubrics = tuple(
        replace(bank.rubrics[place], source_pair_ids=(), example_prompts=(), aliases=(), domain="") for place in kept
    )
    without = {"vocabulary": bank.vocabulary, "idf": bank.idf}
    if selector["hidden"].shape[1] == 1:  # one group of prompts: no word can change what is selected
        selector["hidden"] = selector["hidden"][:0]
        without = {"vocabulary": {}, "idf": np.zeros(0, np.float32)}
    return replace(bank, rubrics=rubrics, selector=selector, **without)


def with_card(bank: RubricBank, used: Mapping[str, tuple[int, str]], figures: Mapping[str, Any]) -> RubricBank:
    """Return the bank with what its card says: sources, licences, the words it holds, and how it does."""
    names = ", ".join(f"{source.title.split(',')[0]} ({source.licence})" for source in SOURCES)
    notes = [f"trained offline on {names}; rules judge, no model"]
    notes += [
        f"Source: {source.title}; {source.licence}; {source.home}; {used[source.key][0]:,} pairs used, "
        f"{100 * HELD_OUT:.0f} % of their prompts held out."
        for source in SOURCES
    ]
    notes += [
        words_note(len(bank.vocabulary)),
        "No text of the data is in the bank: its rubrics are the package's own.",
    ]
    notes += [measured_note(name, row) for name, row in figures.items()]
    notes.append(
        "The general checks were fitted on the other half of RMB's prompts, so RMB favours them. The sources were "
        "chosen, and HH-RLHF left out, with these figures in view."
    )
    digests = {f"{source.title} ({source.licence})": used[source.key][1] for source in SOURCES}
    return replace(bank, name="svr-async default", notes=tuple(notes), data_digests=bank.data_digests | digests)


def words_note(count: int) -> str:
    """Say which words of the prompts the bank holds."""
    if not count:
        return "It uses the same rubrics for every prompt, so it holds no words: the pairs form no groups of prompts."
    return (
        f"The selector knows {count:,} words and pairs of words of the prompts, only plain ones: letters a to z, "
        "frequent in everyday prompts or one of the package's own words for harm, no swear words, nothing that is "
        "mostly written with a capital."
    )


def measured_note(name: str, row: Mapping[str, Any]) -> str:
    """Return one line of the figures: strict accuracy of the three, in percent."""
    parts = ", ".join(f"{method} {100 * row[method]['accuracy']:.1f} %" for method in METHODS)
    low, high = (100 * value for value in row["bank"]["ci95"])
    own = f"this bank {100 * row['bank']['accuracy']:.1f} % [{low:.1f}, {high:.1f}]"
    return f"Measured on {name} ({row['bank']['n']:,} pairs): {parts}, {own}."


# ── measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────


def measure(bank: Path, tests: Mapping[str, Sequence[str]], work: Path) -> dict[str, Any]:
    """Return strict accuracy on each test set by the longest answer, the general checks and the bank."""
    methods = {**METHODS, "bank": ("--bank", str(bank))}
    figures: dict[str, Any] = {}
    for name, data in tests.items():
        figures[name] = {method: evaluate(data, flags, work) for method, flags in methods.items()}
        print(measured_note(name, figures[name]), flush=True)
    return figures


def evaluate(data: Sequence[str], flags: Sequence[str], work: Path) -> dict[str, Any]:
    """Return n, strict accuracy, its interval and the domains of one evaluation by the rules judge."""
    out = work / "runs" / hashlib.sha256(repr((data, flags)).encode()).hexdigest()[:12]
    shutil.rmtree(out, ignore_errors=True)  # of a bank made before
    command = [str(SVR), "eval", *data, *flags, "--judge", "rules", "--audit", "0", "--min-coverage", "0"]
    command += ["-q", "--json", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, check=True)
    metrics = json.loads(done.stdout)
    domains = {name: round(part["accuracy"], 4) for name, part in metrics["by_domain"].items()}
    return {
        "n": metrics["n_total"],
        "accuracy": metrics["accuracy"],
        "ci95": metrics["accuracy_ci95"],
        "domains": domains,
    }


def stands_in(figures: Mapping[str, Any]) -> bool:
    """Whether the bank is better than the general checks on every set that it was not trained on, and on the sample."""
    others = [row for name, row in figures.items() if not name.startswith("held-out")]
    return all(row["bank"]["accuracy"] > row["general checks"]["accuracy"] for row in others)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    options = read_options(arguments)
    work: Path = options.work
    pairs, used = [], {}
    for source in SOURCES:
        path: Path = getattr(options, source.key)
        found = read_source(source.key, path)
        used[source.key] = (len(found), hashlib.sha256(path.read_bytes()).hexdigest())
        pairs += found
    train_pairs, held = split_by_prompt(pairs, HELD_OUT, salt=SALT)
    bank = asyncio.run(train(write_pairs(work / "train.jsonl", train_pairs), work / "training"))
    small = slimmed(bank)
    print(f"{len(bank)} rubrics trained, {len(small)} kept; {len(small.vocabulary)} terms", flush=True)
    small.save(work / "bank")
    figures = measure(work / "bank", dict(test_sets(options, held)), work)
    (work / "figures.json").write_text(json.dumps(figures, indent=2))
    with_card(small, used, figures).save(options.out)
    size = sum(path.stat().st_size for path in options.out.iterdir())
    print(f"wrote {options.out.name}: {size / 1000:.0f} kB. Set STANDS_IN = {stands_in(figures)} in scoring/shipped.py")
    return 0


def test_sets(options: argparse.Namespace, held: Sequence[PreferencePair]) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield what is measured on: a name, and the arguments of `svr eval` that name the data."""
    sets = {
        "held-out prompts of its own sources": held,
        "LLMBar, five subsets": read_llmbar(options.llmbar, "LLMBar"),
        "FairEval, LLMEval² and MT-Bench pairs": read_llmbar(options.llmbar, "Processed"),
        "RMB, prompts that the general checks were not fitted on": read_rmb(options.rmb),
    }
    for number, (name, pairs) in enumerate(sets.items()):
        yield name, ("pairs", "--data", str(write_pairs(options.work / f"test-{number}.jsonl", pairs)))
    yield "the sample that ships with the package", ("rubricbench", "--sample")


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for source in SOURCES:
        parser.add_argument(f"--{source.key}", type=Path, required=True, help=f"{source.title} ({source.licence})")
    parser.add_argument("--llmbar", type=Path, required=True, help="LLMBar's data folder; measured on only")
    parser.add_argument("--rmb", type=Path, required=True, help="RMB's data folder; measured on only")
    parser.add_argument("--work", type=Path, required=True, help="where converted pairs, stages and runs go")
    parser.add_argument("--out", type=Path, default=TARGET, help="where the bank goes")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
