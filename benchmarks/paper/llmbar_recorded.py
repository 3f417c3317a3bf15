"""Turn LLMBar's published evaluator outputs into pairs and recorded replies, so that real judges can be replayed.

    python benchmarks/paper/llmbar_recorded.py --llmbar LLMBar/Dataset --evaluator GPT-4 --strategy Metrics --out out

writes `pairs.jsonl` (prompt, response_a, response_b, label, id, domain) and `replies.jsonl` (pair_id, order, role,
reply: the format of the recorded judge), and prints the accuracy of the replies in each order. `Vanilla` gives direct
verdicts; `Metrics` gives the questions that the evaluator wrote for itself, and its verdicts under them.

In LLMBar's files `winner` names an output of the data set ("1" or "2") whatever order was shown; a reply names the
response as shown, so with the order `ba` winner "1" is B. A winner of another kind leaves a reply without a verdict.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from svr_async.adapters.tables import data_files, read_rows
from svr_async.core.rubric import split_rubrics
from svr_async.errors import DataError, SvrError

STRATEGIES = ("Vanilla", "Metrics")
ORDERS = {"ab": "swap = False", "ba": "swap = True"}


def result_files(folder: Path, evaluator: str, strategy: str) -> dict[str, Path]:
    """Return an evaluator's result files by subset: "Natural", "GPTInst" …; DataError where there are none."""
    ending = ("evaluators", evaluator, strategy)
    found = {
        p.parents[3].name: p
        for p in data_files(folder)
        if p.parent.parts[-3:] == ending and p.name.startswith("result.")
    }
    if not found:
        known = sorted({"/".join(p.parent.parts[-2:]) for p in data_files(folder) if "evaluators" in p.parts})
        raise DataError(
            f"no results of {evaluator}/{strategy} below {folder}", hint=f"there are {', '.join(known) or 'none'}"
        )
    return found


def pair_record(row: Mapping[str, Any], pair_id: str, subset: str) -> dict[str, Any]:
    """Return one pair in the data's order; label 0 means that response_a is better."""
    return {
        "id": pair_id,
        "domain": subset,
        "prompt": row["input"],
        "response_a": row["output_1"],
        "response_b": row["output_2"],
        "label": int(row["label"]) - 1,
    }


def shown_winner(winner: Any, order: str) -> str:
    """Return "A" or "B" in the order shown, or an empty text without a winner."""
    if winner not in ("1", "2"):
        return ""
    return "A" if (winner == "1") == (order == "ab") else "B"


def reply_records(row: Mapping[str, Any], pair_id: str, strategy: str) -> Iterator[dict[str, str]]:
    """Yield the replies recorded for one pair: its questions if it has any, and a verdict in each order."""
    *questions, verdicts = row["results"]
    if strategy == "Metrics":
        written = json.dumps({"rubrics": split_rubrics(questions[0][0]), "rubric_note": ""}, ensure_ascii=False)
        yield {"pair_id": pair_id, "role": "self_rubrics", "reply": written}
    for order, key in ORDERS.items():
        side = shown_winner(verdicts[key]["winner"], order)
        completion = verdicts[key].get("completion", [""])[0]
        role, reply = ("direct", _direct(completion, side)) if strategy == "Vanilla" else ("compare", _compare(side))
        yield {"pair_id": pair_id, "order": order, "role": role, "reply": reply}


def _direct(completion: str, side: str) -> str:
    return f"{completion}\n[[{side}]]" if side else completion


def _compare(side: str) -> str:
    preferred = {"preferred_candidate": side} if side else {}
    return json.dumps({"rubric_comparisons": [], **preferred})


def convert(folder: Path, evaluator: str, strategy: str, out: Path) -> dict[str, dict[str, float]]:
    """Write both files; return, by subset, the number of pairs and the accuracy in each order and over both."""
    pairs, replies, report = [], [], {}
    for subset, file in result_files(folder, evaluator, strategy).items():
        rows = [row.values for row in read_rows(file)]
        ids = [f"{subset}/{number}" for number in range(1, len(rows) + 1)]
        pairs += [pair_record(row, pair_id, subset) for row, pair_id in zip(rows, ids, strict=True)]
        for row, pair_id in zip(rows, ids, strict=True):
            replies += list(reply_records(row, pair_id, strategy))
        report[subset] = _accuracies(rows)
    out.mkdir(parents=True, exist_ok=True)
    _write_lines(out / "pairs.jsonl", pairs)
    _write_lines(out / "replies.jsonl", replies)
    return report


def _accuracies(rows: list[Mapping[str, Any]]) -> dict[str, float]:
    """Return the share of right verdicts; one that is missing counts as wrong."""
    right = {
        order: sum(row["results"][-1][key]["winner"] == str(row["label"]) for row in rows) / len(rows)
        for order, key in ORDERS.items()
    }
    return {"n": len(rows), **right, "both": sum(right.values()) / len(right)}


def _write_lines(path: Path, records: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--llmbar", type=Path, required=True, help="LLMBar's Dataset folder, or the LLMBar folder in it"
    )
    parser.add_argument("--evaluator", default="GPT-4", help="GPT-4, ChatGPT, …: a folder below evaluators/")
    parser.add_argument("--strategy", default="Vanilla", choices=STRATEGIES)
    parser.add_argument("--out", type=Path, required=True, help="folder for pairs.jsonl and replies.jsonl")
    options = parser.parse_args(arguments)
    try:
        report = convert(options.llmbar, options.evaluator, options.strategy, options.out)
    except SvrError as error:
        print(error.one_line(), file=sys.stderr)
        return error.exit_code
    for subset, line in report.items():
        print(f"{subset:10} n {line['n']:4}  ab {line['ab']:.3f}  ba {line['ba']:.3f}  both {line['both']:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
