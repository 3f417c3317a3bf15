"""What a text inside a response can change, in the shipped layout and in the paper's: no model, a SIMULATED reader.

    python benchmarks/paper/injection.py

Each of the attacks of `svr_async.evaluation.attacks` stands at the end of one response of planted pairs. Four things
are counted, for a judge that obeys nothing:

- cut: the requests from which a reader that goes by the layout's own marks, as `svr sim` does, takes other responses or
  other rubrics than were sent.
- quoted: the replies that are read as another verdict because the judge quotes the attacked response ahead of its
  honest answer, behind it, or ahead of one whose JSON is broken (read with repair, as after a second try).
- asked again: the same replies, where they are read as no verdict.

How far a language model lets itself be talked over is not measured here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import orjson

from svr_async.core.pair import Order, Presentation, present
from svr_async.core.rubric import Rubric
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.evaluation.attacks import ATTACKS
from svr_async.judges.material import clean, local_ids
from svr_async.judges.profiles import Profile
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import PAPER, load_templates
from svr_async.simulation.brain import Simulator
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.config import SimConfig
from svr_async.simulation.request import parse_request
from svr_async.simulation.world import World

PAIRS = 10
RUBRICS = tuple(Rubric(text=criterion.rubric) for criterion in CRITERIA[:6])
LAYOUTS = {"ours": None, "paper": PAPER}
QUOTED: Mapping[str, Callable[[str, str], str]] = {
    "ahead": lambda quote, answer: f"The response was:\n{quote}\n\nMy verdict:\n{answer}",
    "behind": lambda quote, answer: f"{answer}\n\nThe response that I judged was:\n{quote}",
    "broken": lambda quote, answer: f"The response was:\n{quote}\n\nMy verdict:\n{_broken(answer)}",
}
Asked = Question[Any]


def _broken(answer: str) -> str:
    """Return an answer with a slip that models make: a comma is missing between the rows."""
    return answer.replace("}, {", "} {").replace("},{", "} {")


def attacked(attack: str) -> Iterator[tuple[Presentation, Presentation]]:
    """Return planted pairs, clean and with a text at the end of the first response, then of the second."""
    for planted in World().pairs(PAIRS):
        shown = present(planted.pair, Order.AB)
        yield shown, replace(shown, response_a=f"{shown.response_a}\n\n{attack}")
        yield shown, replace(shown, response_b=f"{shown.response_b}\n\n{attack}")


def questions(writer: QuestionWriter, shown: Presentation) -> dict[str, Asked]:
    """Return the questions about a pair, by role."""
    return {
        "direct": writer.direct(shown),
        "compare": writer.compare(shown, RUBRICS, overall=False),
        "overall": writer.compare(shown, RUBRICS, overall=True, note="A note."),
    }


def cut(asked: Asked, shown: Presentation, role: str) -> bool:
    """Whether a reader of the request takes another pair or other rubrics from it."""
    read = parse_request(orjson.loads(asked.request.body_bytes))
    same = [read.fences.get(name) for name in ("RESPONSE_A", "RESPONSE_B")] == [
        clean(shown.response_a),
        clean(shown.response_b),
    ]
    wanted = () if role == "direct" else local_ids(RUBRICS)
    return not same or tuple(name for name, _ in read.rubrics) != wanted


def simulated(judge: Simulator, asked: Asked) -> Any:
    """Return the rows that the simulated judge's answer is read as."""
    found = verdict(asked, judge.answer(orjson.loads(asked.request.body_bytes))["choices"][0]["message"]["content"])
    return None if found is None else {name: (row.a, row.b) for name, row in found[0].items()}


def answer(asked: Asked, role: str, *, signed: bool) -> str:
    """Return an honest answer: A passes where the number of the rubric is odd, and A is preferred."""
    nonce = parse_request(orjson.loads(asked.request.body_bytes)).nonce if signed else ""
    if role == "direct":
        return f"A is the better one. [[{f'A {nonce}'.strip()}]]"
    rows = [
        {
            "rubric_id": f"R{n}",
            "reason": "So it is.",
            "candidate_a_verdict": one,
            "candidate_b_verdict": two,
            "better": better,
        }
        for n in range(1, len(RUBRICS) + 1)
        for one, two, better in [("pass", "fail", "A") if n % 2 else ("fail", "pass", "B")]
    ]
    head = {"nonce": nonce} if signed else {}
    return orjson.dumps({**head, "rubric_comparisons": rows, "preferred_candidate": "A"}).decode()


def verdict(asked: Asked, text: str, *, repair: bool = False) -> Any:
    """Return what is read of a reply: the side, or rows and preference; None where nothing is."""
    read = asked.parse_lenient if repair and asked.parse_lenient is not None else asked.parse
    try:
        found = read(text)
    except ReplyRejectedError:
        return None
    return (found.rows, found.preferred) if hasattr(found, "rows") else found


def measure(attack: str, layout: str) -> dict[str, list[bool]]:
    """Return what an attack changed in a layout, question by question, by what is counted."""
    templates = load_templates(LAYOUTS[layout])
    writer = QuestionWriter(Profile(name="sim", model="gpt-oss-120b", base_url="http://127.0.0.1:1/v1"), templates)
    found: dict[str, list[bool]] = {name: [] for name in ("cut", "verdicts", "direct", *QUOTED, "asked again")}
    judge = Simulator(SimConfig(noise=0.0, position_bias=0.0))
    for clear, shown in attacked(attack):
        before = questions(writer, clear)
        quote = clean(shown.response_a if attack in shown.response_a else shown.response_b)
        for role, asked in questions(writer, shown).items():
            found["cut"].append(cut(asked, shown, role))
            if role != "direct":
                found["verdicts"].append(simulated(judge, asked) != simulated(judge, before[role]))
            honest = answer(asked, role, signed=layout == "ours")
            for place, reply in QUOTED.items():
                if role == "direct" and place == "broken":
                    continue
                read = verdict(asked, reply(quote, honest), repair=place == "broken")
                changed = read is not None and read != verdict(asked, honest)
                found["direct" if role == "direct" and place == "behind" else place].append(changed)
                found["asked again"].append(read is None)
    return found


def main() -> None:
    """Print a table: attacks down, what is counted across, in each layout."""
    columns = ("cut", "verdicts", "ahead", "behind", "broken", "direct", "asked again")
    print("| attack | " + " | ".join(f"{one}, {layout}" for one in columns for layout in LAYOUTS) + " |")
    print("|---" * (1 + len(columns) * len(LAYOUTS)) + "|")
    sums = dict.fromkeys(((one, layout) for one in columns for layout in LAYOUTS), (0, 0))
    for name, attack in ATTACKS.items():
        found = {layout: measure(attack, layout) for layout in LAYOUTS}
        cells = []
        for one, layout in sums:
            flags = found[layout][one]
            sums[one, layout] = (sums[one, layout][0] + sum(flags), sums[one, layout][1] + len(flags))
            cells.append(f"{sum(flags)}/{len(flags)}")
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("| all | " + " | ".join(f"{changed}/{asked}" for changed, asked in sums.values()) + " |")


if __name__ == "__main__":
    main()
