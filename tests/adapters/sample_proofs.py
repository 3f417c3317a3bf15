"""Which items of the shipped sample a program can tell apart, and how: a proof holds for the better response alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

Proof = Callable[[str], bool]
Case = tuple[tuple[object, ...], object]


def runs(name: str, *cases: Case) -> Proof:
    """Return a proof: the function in the response's Python block gives these results."""

    def proof(response: str) -> bool:
        source = response.split("```python\n", 1)[1].split("```", 1)[0]
        space: dict[str, object] = {}
        exec(compile(source, "sample", "exec"), space)  # the sample is our own
        function = space[name]
        assert callable(function)
        return all(function(*arguments) == expected for arguments, expected in cases)

    return proof


def says(answer: str) -> Proof:
    """Return a proof: the response's last line holds this answer as a whole number or word."""
    return lambda response: (
        re.search(rf"(?<![\w.,]){re.escape(answer)}(?![\w,]|\.\d)", response.splitlines()[-1]) is not None
    )


def is_json_with(*keys: str) -> Proof:
    """Return a proof: the response is one JSON object with exactly these keys."""

    def proof(response: str) -> bool:
        try:
            value = json.loads(response)
        except ValueError:
            return False
        return isinstance(value, dict) and sorted(value) == sorted(keys)

    return proof


def words(text: str) -> int:
    """Count words."""
    return len(text.split())


def sentences(text: str) -> int:
    """Count sentences."""
    return len(re.findall(r"[.!?](?=\s|$)", text))


def bullets(text: str) -> int:
    """Count lines of a list."""
    return sum(line.startswith("- ") for line in text.splitlines())


PROOFS: dict[str, Proof] = {
    "sample_code_01": runs(
        "is_palindrome", (("A man, a plan, a canal: Panama",), True), (("ab",), False), (("",), True)
    ),
    "sample_code_02": runs("merge", (([1, 4], [2, 3, 9]), [1, 2, 3, 4, 9]), (([], [5]), [5])),
    "sample_code_03": runs("running_mean", (([2, 4, 6],), [2.0, 3.0, 4.0]), (([],), [])),
    "sample_code_04": runs("count_words", (("one  two\nthree",), 3), (("",), 0)),
    "sample_code_05": runs("fizz", ((15,), "FizzBuzz"), ((9,), "Fizz"), ((10,), "Buzz"), ((7,), "7")),
    "sample_code_06": runs("minutes", (("07:45",), 465), (("00:00",), 0)),
    "sample_code_07": runs("unique", (([3, 1, 3, 2, 1],), [3, 1, 2])),
    "sample_code_08": runs("roman", (("MCMXCIV",), 1994), (("VIII",), 8)),
    "sample_code_09": runs("flatten", (([1, [2, [3]]],), [1, 2, 3]), (([],), [])),
    "sample_code_10": runs("chunks", (([1, 2, 3, 4, 5], 2), [[1, 2], [3, 4], [5]])),
    "sample_code_11": runs("add", (("x",), ["x"]), (("x",), ["x"])),
    "sample_code_12": runs("median", (([4, 1, 3, 2],), 2.5), (([5, 1, 3],), 3)),
    "sample_code_13": runs("find", (([1, 3, 5], 5), 2), (([1, 3, 5], 4), -1), (([7], 7), 0)),
    "sample_code_14": runs("initials", (("ada king lovelace",), "A.K.L."), (("grace  hopper",), "G.H.")),
    "sample_stem_01": says("66.00"),
    "sample_stem_02": says("162.00"),
    "sample_stem_03": says("24"),
    "sample_stem_04": says("16"),
    "sample_stem_05": says("6"),
    "sample_stem_06": says("25"),
    "sample_stem_07": says("2"),
    "sample_stem_08": says("12"),
    "sample_stem_09": says("2/15"),
    "sample_stem_10": says("1331"),
    "sample_stem_12": says("1000"),
    "sample_stem_14": says("2.7"),
    "sample_if_01": lambda response: sentences(response) == 3,
    "sample_if_02": lambda response: words(response) <= 25,
    "sample_if_03": is_json_with("name", "price", "in_stock"),
    "sample_if_04": lambda response: response == response.lower() and len(response.splitlines()) == 2,
    "sample_if_05": lambda response: "," not in response,
    "sample_if_06": lambda response: bullets(response) == 4,
    "sample_if_07": lambda response: not re.search(r"\b(good|nice|great)\b", response.lower()),
    "sample_if_08": lambda response: "".join(line[0] for line in response.splitlines()) == "RAIN",
    "sample_if_09": lambda response: (
        response.startswith("| Drink | Caffeine | Taste |")
        and all(line.startswith("|") for line in response.splitlines())
    ),
    "sample_if_10": lambda response: response.endswith("That is all."),
    "sample_if_11": lambda response: response == "No",
    "sample_if_12": lambda response: all(
        len(re.findall(rf"\b{w}\b", response.lower())) == 1 for w in ("harbour", "copper", "lantern")
    ),
    "sample_if_13": lambda response: response.count("\n***\n") == 1,
    "sample_if_14": lambda response: response.startswith("<<") and ">>" in response and words(response) < 40,
}
