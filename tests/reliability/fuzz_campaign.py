"""Damage files of a kind again and again, and give them to the commands that read them.

    python tests/reliability/fuzz_campaign.py KIND|all SECONDS SEED [FOLDER]

Prints, for each kind, how many cases ran and how they ended, and every finding once, with what makes it again: the
damaged files lie in FOLDER/findings. `--list` names the kinds.
"""

from __future__ import annotations

import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

if __name__ == "__main__":
    _here = Path(__file__).parent
    sys.path[:0] = [str(_here.parents[1]), str(_here.parent)]

from fuzz_ground import STEPS, make_ground
from fuzz_kinds import KINDS, Kind
from fuzz_mutation import mutated
from fuzz_seals import broken_rows, reseal
from fuzz_watch import Case, watched, written

MADE_CACHE = re.compile(r"heard: (os\.mkdir .*|\S+ .*/(cache\.db[^/]*|\.new-[^/]+|claims.*))$")  # and its folder
MOST_BYTES = 8 * 2**30  # of addresses: a file that has more memory asked for than that is refused by the kernel


@dataclass(frozen=True, slots=True)
class Damage:
    """What is done in one case: the damaged file, the seeds of its mutations, and the command."""

    target: str
    seeds: tuple[int, ...]
    command: tuple[str, ...]
    sealed: bool = False  # digests are put right afterwards


@dataclass(slots=True)
class Found:
    """What a campaign against one kind came to."""

    cases: int = 0
    seconds: float = 0.0
    codes: Counter[int] = field(default_factory=Counter)
    findings: dict[str, tuple[Damage, Case]] = field(default_factory=dict)


class Fuzzer:
    """Runs cases of one kind in a folder of its own."""

    def __init__(self, kind: Kind, ground: Path, place: Path) -> None:
        self.kind, self.ground, self.place = kind, ground, place
        self.targets = sorted(
            str(path.relative_to(ground)) for glob in kind.targets for path in ground.glob(glob) if path.is_file()
        )
        assert self.targets, kind.targets

    def drawn(self, seed: str) -> Damage:
        """Return the case of a seed."""
        rng = random.Random(seed)
        target = rng.choice(self.targets)
        command = rng.choice(self.kind.commands)
        seeds = tuple(rng.randrange(2**48) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        return Damage(target, seeds, self.words(command, target), sealed=rng.random() < 0.5)

    def words(self, command: str, target: str) -> tuple[str, ...]:
        """Return a command of this kind about one of its files."""
        stem = "rubricbench" if target == "bench.jsonl" else Path(target).stem
        said = command.replace("{stem}", stem).replace("{top}", Path(target).parts[0])
        return tuple(said.replace("@", target).split())

    def run(self, damage: Damage) -> Case:
        """Copy what is whole, damage it, run the command, look at all that it wrote."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        for part in self.kind.parts:
            _copy(self.ground / part, self.place / part)
        damaged = self.place / (".env" if damage.target == "dotenv" else damage.target)
        data = (self.ground / damage.target).read_bytes()
        for seed in damage.seeds:
            data = mutated(data, damage.target, seed)
        damaged.write_bytes(data)
        if damage.sealed and damage.target == "cache/cache.db":
            damaged.write_bytes((self.ground / damage.target).read_bytes())
            broken_rows(damaged.parent, damage.seeds[0])
        elif damage.sealed:
            reseal(self.place)
        before = self.seen()
        case = watched(damage.command, self.place, limit_s=90.0 if damage.command[0] in self.kind.slow else 20.0)
        if self.kind.names_cache:
            case.wrong = [sign for sign in case.wrong if not MADE_CACHE.match(sign)]
        changed = [path for path, state in self.seen().items() if before.get(path) != state]
        may = ("out", "xdg", "cache", "runs", *self.kind.may)
        mine = (path for path in changed if not path.startswith(may))
        case.wrong += [f"wrote {path}" for path in mine if not (self.kind.names_cache and is_cache(path))]
        case.wrong += written(self.place / path for path in changed)
        return case

    def whole(self) -> dict[str, int]:
        """Return the exit code of each command where nothing is damaged: a fuzzer of what never works finds nothing."""
        ends = {}
        for command in self.kind.commands:
            words = self.words(command, self.targets[0])
            case = self.run(Damage(self.targets[0], (), words))
            assert not case.wrong, (words, case.wrong, case.detail)
            ends[" ".join(words)] = case.code
        return ends

    def seen(self) -> dict[str, tuple[int, int]]:
        """Return every file of the case by its path, with size and time."""
        files = (path for path in self.place.rglob("*") if path.is_file())
        return {str(path.relative_to(self.place)): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}

    def minimised(self, damage: Damage, sign: str) -> Damage:
        """Leave out mutations that a finding does not need."""
        for seed in damage.seeds if len(damage.seeds) > 1 else ():
            fewer = replace(damage, seeds=tuple(one for one in damage.seeds if one != seed))
            if fewer.seeds and sign in self.run(fewer).wrong:
                damage = fewer
        return damage


def is_cache(path: str) -> bool:
    """Whether a file is one of a cache's own."""
    return Path(path).name.startswith("cache.db") or "/claims/" in path or path.endswith(".svr")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
        target.chmod(0o700)
    elif source.exists():
        shutil.copy(source, target)


def campaign(fuzzer: Fuzzer, seed: int, *, cases: int = 0, seconds: float = 0.0, keep: Path | None = None) -> Found:
    """Run so many cases, or for so many seconds; `keep` gets the damaged files of each finding."""
    found, begun = Found(), time.monotonic()
    while found.cases < cases or time.monotonic() - begun < seconds:
        damage = fuzzer.drawn(f"{seed}/{found.cases}")
        case = fuzzer.run(damage)
        found.cases += 1
        found.codes[case.code] += 1
        for sign in case.wrong:
            if sign in found.findings:
                continue
            least = fuzzer.minimised(damage, sign)
            found.findings[sign] = (least, fuzzer.run(least) if least is not damage else case)
            if keep is not None:
                fuzzer.run(least)
                place = keep / f"{len(list(keep.glob('*'))) if keep.exists() else 0:03d}"
                shutil.copytree(fuzzer.place, place / "files", symlinks=True)
                (place / "what.txt").write_text(
                    f"{sign}\nsvr {' '.join(least.command)}\n{least}\n{case.detail}\n{case.err}", errors="replace"
                )
    found.seconds = time.monotonic() - begun
    return found


def told(name: str, found: Found) -> Iterator[str]:
    """Yield a line about the kind, and one or more about each finding."""
    codes = ", ".join(f"{count} × {code}" for code, count in sorted(found.codes.items()))
    yield f"{name}: {found.cases} cases in {found.seconds:.0f} s, {len(found.findings)} findings; exits {codes}"
    for sign, (damage, case) in found.findings.items():
        yield f"  ! {sign}"
        how = f"{damage.target} damaged by {damage.seeds}{', resealed' if damage.sealed else ''}"
        yield f"    svr {' '.join(damage.command)}   # {how}"
        if case.detail:
            yield "    " + " | ".join(case.detail.strip().splitlines()[-3:])
        elif case.err:
            yield "    " + ascii(case.err[:300])


def main(args: Sequence[str]) -> int:
    """Run campaigns as the command line says; 1 where there was a finding."""
    if args[:1] == ["--list"]:
        sys.stdout.write("\n".join(KINDS) + "\n")
        return 0
    names, seconds, seed = list(KINDS) if args[0] == "all" else args[0].split(","), float(args[1]), int(args[2])
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    folder = Path(args[3]) if len(args) > 3 else Path(tempfile.mkdtemp(prefix="fuzz-"))
    ground = folder / "ground"
    if not ground.exists():
        needed = {step for name in names for step in KINDS[name].steps}
        make_ground(ground, tuple(step for step in STEPS if step in needed))
    total = 0
    for name in names:
        slug = name.replace(" ", "-").strip(".")
        fuzzer = Fuzzer(KINDS[name], ground, folder / "cases" / slug)
        sys.stdout.writelines(f"  {code}: svr {words}\n" for words, code in fuzzer.whole().items() if code)
        found = campaign(fuzzer, seed, seconds=seconds, keep=folder / "findings" / slug)
        total += len(found.findings)
        sys.stdout.write("\n".join(told(name, found)) + "\n")
        sys.stdout.flush()
    return min(total, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
