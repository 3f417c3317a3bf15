"""The kinds of files that are damaged: which, what they need beside them, and the commands that read them.

In a command `@` is the damaged file. What a command writes is called `out…`; `may` names what else it may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def _lines(text: str) -> tuple[str, ...]:
    """Return commands that stand one a line."""
    return tuple(filter(None, map(str.strip, text.splitlines())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of file: steps of the ground that make it, globs of the damaged files, what lies beside, commands."""

    steps: tuple[str, ...]
    targets: tuple[str, ...]
    commands: tuple[str, ...]
    beside: tuple[str, ...] = ()
    may: tuple[str, ...] = ()
    slow: tuple[str, ...] = ()
    names_cache: bool = False  # the file itself says where the cache lies, as SECURITY.md tells

    @property
    def parts(self) -> Sequence[str]:
        """Everything at the ground's top that a case gets a copy of."""
        tops = (target.partition("/")[0] for target in self.targets)
        return tuple(dict.fromkeys((*tops, *self.beside, "judges.toml")))


READ_PAIRS = _lines("""
    data check @
    data check @ --lenient --json
    data convert @ --out out.jsonl
    data split @ --out out
    data show pairs --data @ --row 2
    data contamination @ --against pairs=@ --out out.jsonl
    eval pairs --data @ --judge rules --out out -q
    eval pairs --data @ --judge rules --method vanilla --lenient --out out --json
    eval pairs --data @ --method longest --out out
    eval pairs --data @ --judge sim --dry-run
    train @ --judge rules --out out --dry-run
    judge @ --candidates candidates.jsonl --judge rules --out out -q
""")
READ_RUN = _lines("""
    report run --out out.html
    report run --out out.tex
    report run --out out.csv
    report run --out out.md
    report run good-run --out out.html
    report run good-run --out out.tex
    report run good-run --out out.csv
    compare run good-run
    compare good-run run --by domain --disagreements out.csv --taxonomy out2.csv
    compare run good-run --json
    gate run --baseline good-run --format github
    gate good-run --baseline run
    explain run
    explain run sim-test-00000
    view run --no-open --out out.html
    transfer run good-run
    view good-run run --no-open --out out.html
    labels run labels.csv
    labels run --next 3 --out out.csv
    bank effect good-bank run
    report good-bank run --out out.html
    report run good-run --frontier --out out.html
    eval rubricbench --data bench.jsonl --judge rules --bank good-bank --out run -q
""")
READ_BANK = _lines("""
    bank show bank
    bank show bank --json
    bank stats bank
    bank lint bank
    bank card bank
    bank diff bank good-bank
    bank merge bank good-bank --out out
    bank export bank --to out
    report bank --out out.html
    bank edit bank --add Names-its-sources. --add-weight 0.5 --by A --reason x --out out
    eval rubricbench --data bench.jsonl --judge rules --bank bank --out out -q
    explain --judge rules --bank bank --prompt P --a one --b two
    report bank run --out out.html
    bank effect bank run
    rank --judge rules --bank bank --prompt P one two three
""")
KINDS: dict[str, Kind] = {
    "pairs as JSON": Kind(
        steps=("pairs", "lists"),
        targets=("pairs.jsonl", "pairs.json", "talk.jsonl", "pairs.jsonl.gz"),
        commands=READ_PAIRS,
        beside=("candidates.jsonl",),
    ),
    "pairs as text tables": Kind(
        steps=("pairs", "lists"),
        targets=("pairs.csv", "pairs.tsv"),
        commands=READ_PAIRS,
        beside=("candidates.jsonl",),
    ),
    "pairs as Parquet": Kind(
        steps=("pairs", "lists"),
        targets=("pairs.parquet", "talk.parquet"),
        commands=READ_PAIRS,
        beside=("candidates.jsonl",),
    ),
    "benchmarks": Kind(
        steps=("benchmarks",),
        targets=("bench.jsonl", "rewardbench.jsonl", "rewardbench2.jsonl", "rmbench.jsonl", "helpsteer3.jsonl"),
        commands=_lines("""
            eval {stem} --data @ --judge rules --out out -q
            data check @ --format {stem}
            data show {stem} --data @
            eval {stem} --data @ --method longest --lenient --out out
        """),
    ),
    "groups": Kind(
        steps=("groups",),
        targets=("groups.jsonl", "ranked.jsonl"),
        commands=_lines("""
            rank groups.jsonl --judge rules --out out.jsonl
            pairs build ranked.jsonl --out out.jsonl
            rank groups.jsonl --judge rules --out ranked.jsonl --json
            pairs build ranked.jsonl --every --min-margin 0.1 --out out.jsonl
        """),
        may=("ranked.jsonl",),
    ),
    "banks": Kind(
        steps=("bank", "runs"),
        targets=("bank/*",),
        commands=READ_BANK,
        beside=("good-bank", "bench.jsonl", "run"),
    ),
    "trained banks": Kind(
        steps=("pairs", "lists", "bank", "runs", "trained"),
        targets=("trained/bank/*", "trained/record.json"),
        commands=_lines("""
            report trained/bank --out out.html
            bank show trained/bank
            bank card trained/bank
            bank merge trained/bank good-bank --out out
            bank diff trained/bank good-bank
            eval pairs --data pairs.jsonl --judge rules --bank trained/bank --out out -q
            bank lint trained/bank --json
            report trained/bank run --out out.html
        """),
        beside=("pairs.jsonl", "good-bank", "run", "trained", "bench.jsonl"),
    ),
    "training folders": Kind(
        steps=("pairs", "trained"),
        targets=("trained/stages/*", "trained/record.json", "trained/stores/*/*"),
        commands=_lines("""
            train pairs.jsonl --judge rules --out trained --rounds 2 -q
        """),
        beside=("pairs.jsonl", "trained"),
        may=("trained",),
        slow=("train",),
    ),
    "feature stores": Kind(
        steps=("pairs", "lists", "stores"),
        targets=("store/*", "own/*"),
        commands=_lines("""
            store show store
            store show own --json
            store show {top}
            store show {top}
            judge pairs.jsonl --candidates candidates.jsonl --judge rules --out store -q
        """),
        beside=("store", "own", "pairs.jsonl", "candidates.jsonl", "store.stages"),
        may=("store", "store.stages"),
    ),
    "stores that are fitted": Kind(
        steps=("pairs", "lists", "stores"),
        targets=("own/*",),
        commands=_lines("""
            fit own --out out -q
        """),
        slow=("fit",),
    ),
    "arrays of one's own": Kind(
        steps=("pairs", "lists", "stores"),
        targets=("z.npz", "rubrics.jsonl"),
        commands=_lines("""
            store import --pairs pairs.jsonl --rubrics rubrics.jsonl --z z.npz --out out
        """),
        beside=("pairs.jsonl", "rubrics.jsonl", "z.npz"),
    ),
    "run folders": Kind(
        steps=("bank", "runs", "people"),
        targets=("run/*.json", "run/*.jsonl"),
        commands=READ_RUN,
        beside=("good-run", "good-bank", "bench.jsonl", "labels.csv"),
        may=("run",),
    ),
    "runs of a judge": Kind(
        steps=("bank", "runs"),
        targets=("sim-run/*.json", "sim-run/*.jsonl", "sim-run/*.gz"),
        commands=_lines("""
            call show --run sim-run --item sim-test-00000 --cache cache
            view sim-run --calls --no-open --out out.html --cache cache
            explain sim-run sim-test-00000
            report sim-run --out out.html
            compare sim-run good-run
            eval rubricbench --data bench.jsonl --judge sim --method oracle --audit 0.5 --offline --cache \
                cache --out sim-run -q
        """),
        beside=("cache", "bench.jsonl", "good-run"),
        may=("sim-run", "cache"),
    ),
    "shards": Kind(
        steps=("bank", "runs"),
        targets=("shard-1/*.json", "shard-1/*.jsonl", "shard-1/*.gz"),
        commands=_lines("""
            merge shard-1 shard-2 --out out
            merge shard-2 shard-1 --out out --json
            report shard-1 --out out.html
        """),
        beside=("shard-2", "bench.jsonl", "cache"),
        may=("cache",),
    ),
    "caches": Kind(
        steps=("bank", "runs"),
        targets=("cache/cache.db",),
        commands=_lines("""
            eval rubricbench --data bench.jsonl --judge sim --method oracle --offline --cache cache --out out -q
            cache stats --cache cache
            cache verify --cache cache
            cache repair --cache cache
            cache gc --cache cache --yes
            cache export out.jsonl --cache cache
            cache import replies.jsonl --cache cache
            call show --run sim-run --item sim-test-00000 --cache cache
            view sim-run --calls --no-open --out out.html --cache cache
        """),
        beside=("replies.jsonl", "sim-run", "bench.jsonl"),
        may=("cache",),
    ),
    "exported replies": Kind(
        steps=("bank", "runs"),
        targets=("replies.jsonl",),
        commands=_lines("""
            cache import replies.jsonl --cache out
            cache import replies.jsonl --cache cache --json
        """),
        beside=("cache",),
        may=("cache",),
    ),
    "batch folders": Kind(
        steps=("bank", "runs"),
        targets=("batch/*",),
        commands=_lines("""
            batch import batch batch/results-0001.jsonl
            batch import batch batch/results-0001.jsonl --json
            batch status batch
            batch submit batch
            batch import batch
        """),
        beside=("bench.jsonl", "batch-cache"),
        may=("batch", "batch-cache", "cache", "xdg"),
        names_cache=True,
    ),
    "judges.toml": Kind(
        steps=(),
        targets=("judges.toml",),
        commands=_lines("""
            judges
            judges --json
            judges --allow
            eval rubricbench --data bench.jsonl --judge sim --dry-run
            eval rubricbench --data bench.jsonl --judge sim --offline --cache out-cache --out out -q
            prices
        """),
        beside=("bench.jsonl",),
        may=("config",),
    ),
    "config files": Kind(
        steps=("lists",),
        targets=("config.toml",),
        commands=_lines("""
            eval rubricbench --data bench.jsonl --config config.toml --out out --offline
            train bench.jsonl --config config.toml --dry-run --out out
            judges --config config.toml
        """),
        beside=("bench.jsonl",),
    ),
    ".env files": Kind(
        steps=("lists",),
        targets=("dotenv",),
        commands=_lines("""
            eval rubricbench --data bench.jsonl --judge rules --out out --offline
            judges
        """),
        beside=("bench.jsonl",),
        may=("cache",),
    ),
    "recipes": Kind(
        steps=("pairs", "lists", "bank"),
        targets=("recipes/*.toml",),
        commands=_lines("""
            repro {stem} --recipes recipes --data rubricbench=bench.jsonl --dry-run --out out --judge rules --offline
            repro rubricbench --recipes recipes --data rubricbench=bench.jsonl --out out --judge rules \
                --offline -q --bank good-bank --limit 2
            repro all --recipes recipes --data rubricbench=bench.jsonl --dry-run --out out --judge rules \
                --offline --json
        """),
        beside=("recipes", "bench.jsonl", "good-bank"),
        slow=("repro",),
    ),
    "labels": Kind(
        steps=("bank", "runs", "people"),
        targets=("labels.csv", "labels.jsonl"),
        commands=_lines("""
            labels run @
            labels run @ --json
            labels run @ --next 3 --out out.csv
        """),
        beside=("run", "bench.jsonl"),
    ),
    "noise files": Kind(
        steps=("bank", "runs"),
        targets=("noise.json",),
        commands=_lines("""
            compare run good-run --noise noise.json
            gate sim-run --baseline sim-run --noise noise.json
        """),
        beside=("run", "good-run", "sim-run"),
    ),
    "rubric files": Kind(
        steps=("lists", "pairs"),
        targets=("rubrics.txt", "rubrics.json", "rubrics.jsonl"),
        commands=_lines("""
            eval pairs --data pairs.jsonl --judge rules --rubrics @ --out out -q
            eval pairs --data pairs.jsonl --judge sim --method pointwise --rubrics @ --dry-run
        """),
        beside=("pairs.jsonl",),
    ),
    "candidates": Kind(
        steps=("lists", "pairs"),
        targets=("candidates.jsonl",),
        commands=_lines("""
            judge pairs.jsonl --candidates candidates.jsonl --judge rules --out out -q
            judge pairs.jsonl --candidates candidates.jsonl --judge sim --out out --dry-run
        """),
        beside=("pairs.jsonl",),
    ),
    "stages": Kind(
        steps=("pairs", "lists", "stores"),
        targets=("store.stages/*/*", "candidates.jsonl.stages/*/*"),
        commands=_lines("""
            judge pairs.jsonl --candidates candidates.jsonl --judge rules --out store -q
            induce pairs.jsonl --judge rules --out candidates.jsonl -q
        """),
        beside=("pairs.jsonl", "candidates.jsonl", "store", "store.stages", "candidates.jsonl.stages"),
        may=("store", "store.stages", "candidates.jsonl", "candidates.jsonl.stages"),
    ),
    "prompts": Kind(
        steps=("pairs", "lists"),
        targets=("prompts/*.txt", "prompts/paper/*.txt"),
        commands=_lines("""
            eval rubricbench --data bench.jsonl --judge sim --prompts prompts --dry-run
            eval rubricbench --data bench.jsonl --judge sim --method oracle --prompts prompts --dry-run
            train pairs.jsonl --judge sim --prompts prompts --dry-run --out out
        """),
        beside=("bench.jsonl", "pairs.jsonl"),
    ),
    "recordings": Kind(
        steps=("pairs", "lists"),
        targets=("recorded.jsonl", "scores.csv"),
        commands=_lines("""
            eval pairs --data pairs.jsonl --judge recorded:@ --method vanilla --out out -q
            eval pairs --data pairs.jsonl --judge recorded:@ --method vanilla --out out --json
        """),
        beside=("pairs.jsonl",),
    ),
}
