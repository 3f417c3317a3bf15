"""What the strict reading of marks costs on LLMBar's published replies of GPT-4 and ChatGPT.

    python benchmarks/paper/llmbar_reading.py --llmbar DATA/llmbar

Every reply that LLMBar's authors recorded with a winner is put into the form of a direct verdict: a mark follows on a
line of its own, as `llmbar_recorded.py` writes recorded replies; and, apart from that, the last mention of an output
becomes a mark in its place ("Therefore, [[B]] is better."). Replies that they recorded without a winner get a mark for
each mention. Printed is how many are read as the side that was recorded, as the other one, or not at all.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from llmbar_recorded import ORDERS, shown_winner
from svr_async.judges.brackets import read_brackets

from svr_async.adapters.tables import data_files, read_rows
from svr_async.engine.request import AmbiguousReplyError, ReplyRejectedError
from svr_async.errors import SvrError

MENTION = re.compile(r"\bOutput \(([ab])\)")
PROSE = 60  # characters from which a reply is more than the name of an output


def transcripts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the recorded replies that have a text, with the side of their winner as shown, "" for none."""
    for path in data_files(folder):
        if path.name.startswith("result."):
            for row in read_rows(path):
                verdicts = row.values["results"][-1]
                for order, key in ORDERS.items():
                    text = verdicts.get(key, {}).get("completion", [""])[0]
                    if text:
                        yield text, shown_winner(verdicts[key]["winner"], order)


def marked(text: str) -> str:
    """Return a reply with a mark in the place of its last mention of an output."""
    last = list(MENTION.finditer(text))[-1]
    return f"{text[: last.start()]}[[{last[1].upper()}]]{text[last.end() :]}"


def read(text: str, side: str) -> str:
    """Return what a reply is read as, beside the side that was recorded."""
    try:
        found = read_brackets(text).value
    except AmbiguousReplyError:
        return "ambiguous"
    except ReplyRejectedError:
        return "no verdict"
    return "as recorded" if found == side else "read as a side" if not side else "flipped"


def count(folder: Path) -> dict[str, Counter[str]]:
    """Return what became of the replies, by the form that they were put into."""
    tally = {"mark on its own line": Counter[str](), "mark in the prose": Counter[str](), "undecided": Counter[str]()}
    for text, side in transcripts(folder):
        mentions = list(MENTION.finditer(text))
        if not side:
            every = MENTION.sub(lambda one: f"[[{one[1].upper()}]]", text)
            tally["undecided"][read(every, side)] += 1
            continue
        tally["mark on its own line"][read(f"{text}\n[[{side}]]", side)] += 1
        if len(text) >= PROSE and mentions and mentions[-1][1].upper() == side:
            tally["mark in the prose"][read(marked(text), side)] += 1
    return tally


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--llmbar", type=Path, required=True, help="LLMBar's Dataset folder, or a part of it")
    try:
        tally = count(parser.parse_args(arguments).llmbar)
    except SvrError as error:
        print(error.one_line(), file=sys.stderr)
        return error.exit_code
    for form, found in tally.items():
        print(f"{form:22} {found.total():5}  " + ", ".join(f"{name} {n}" for name, n in found.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
