"""What the checks read in a prompt and in code: language, intent, danger, parsers."""

from __future__ import annotations

import warnings

import pytest

from svr_async.judges.rules.code import (
    asked_code_language,
    brackets_balance,
    parses_as_json,
    parses_as_python,
    parses_as_xml,
    wants_code,
)
from svr_async.judges.rules.content import keywords
from svr_async.judges.rules.language import language_of
from svr_async.judges.rules.safety import danger, seems_harmful
from svr_async.judges.rules.text import TextView
from svr_async.judges.rules.wording import reading_grade

TEXTS = {
    "en": "The train leaves in the morning and it will be late because of the snow.",
    "fr": "Le train part le matin et il sera en retard à cause de la neige qui tombe.",
    "es": "El tren sale por la mañana y va a llegar tarde porque hay mucha nieve en la vía.",
    "it": "Il treno parte la mattina e non arriva in orario per la neve che è caduta nella notte.",
    "de": "Der Zug fährt am Morgen ab und ist wegen des Schnees nicht pünktlich.",
    "sv": "Tåget går på morgonen och det är inte i tid för att det har snöat.",
    "pl": "Pociąg odjeżdża rano i nie będzie na czas, bo w nocy spadł śnieg, który się nie topi.",
    "tr": "Tren sabah kalkıyor ve kar yağdığı için zamanında değil, çok geç olacak.",
    "vi": "Tàu chạy vào buổi sáng và không đúng giờ vì đêm qua có tuyết rơi nhiều.",
    "ru": "Поезд уходит утром и опоздает, потому что ночью выпал снег, который ещё не растаял.",
    "uk": "Поїзд вирушає вранці і запізниться, бо вночі випав сніг.",
    "ar": "يغادر القطار في الصباح وسوف يتأخر بسبب الثلج.",
    "fa": "قطار صبح حرکت می‌کند و به خاطر برف دیر می‌رسد، پس صبر کنید و چای بنوشید.",
    "ja": "電車は朝に出発しますが、雪のために遅れます。",
    "ko": "기차는 아침에 출발하지만 눈 때문에 늦습니다.",
    "zh": "火车早上出发，但是因为下雪会晚点。",
}


@pytest.mark.parametrize("code", TEXTS)
def test_languages_are_told_apart(code: str) -> None:
    """A sentence or two is enough to tell a language, by script or by its little words."""
    assert code == language_of(TextView(TEXTS[code]))


@pytest.mark.parametrize("text", ["", "42", "ok", "Qxz vbn wrt plk", "Қазақстан Орталық Азияда орналасқан", "ሰላም ለዓለም"])
def test_unknown_languages_are_left_open(text: str) -> None:
    """A text too short, of no known language, or of a script outside the list has no language."""
    assert language_of(TextView(text)) is None


def test_quoted_words_do_not_change_the_language() -> None:
    """A few foreign words in passing leave a text in its own language; so does code."""
    assert language_of(TextView("The word 雨 means rain, and the word 雪 means snow in that language.")) == "en"
    assert language_of(TextView(TEXTS["de"] + "\n```python\nfor the_of_and in to_the: pass\n```")) == "de"


@pytest.mark.parametrize(
    ("prompt", "code"),
    [
        ("Write a function that sorts a list", True),
        ("Fix this:\n```\nx = \n```", True),
        ("How do I read a file in C++?", True),
        ("Write a poem about snakes", False),
        ("What is the capital of Java island?", False),
    ],
)
def test_wants_code(prompt: str, code: bool) -> None:
    """Code is wanted where a program or a language is named and something is to be made."""
    assert code == wants_code(TextView(prompt))


@pytest.mark.parametrize(
    ("prompt", "language"),
    [
        ("Sort in C#", "csharp"),
        ("in Golang", "go"),
        ("JavaScript, not Java", None),
        ("go to town", None),
        ("C++17", "cpp"),
    ],
)
def test_asked_code_language(prompt: str, language: str | None) -> None:
    """One programming language named is the one that is asked for; words that only look like one are not."""
    assert language == asked_code_language(TextView(prompt))


def test_keywords_leave_little_words_out() -> None:
    """Key words are content words by stem, in order, each once."""
    assert keywords(TextView("What are the risks of investing in a fund? Any risk?")) == ("risk", "invest", "fund")


def test_danger_counts_words_and_phrases_of_all_turns() -> None:
    """Dangerous words add up by stem, phrases as whole words, earlier turns included; everyday prompts are at 0."""
    assert seems_harmful(TextView("How do hackers steal passwords?"))
    assert seems_harmful(TextView("Go on.", before="Tell me how to build a bomb."))
    assert danger(TextView("How do I bake bread and get higher loaves?")) == 0
    assert danger(TextView("How to hide a body")) < danger(TextView("How to hide a body after a murder"))
    assert not seems_harmful(TextView("Recommend a hackathon in Killarney."))


def test_python_parsing_is_silent_and_total() -> None:
    """Odd, deep and broken sources are judged without a warning and without a crash."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parses_as_python(r"x = '\d' if 1 is 1 else 0x5")
    for source in (
        "(" * 50_000,
        "-" * 50_000 + "1",
        "1" + "+1" * 25_000,
        "a" + ".b" * 25_000,
        "\x00",
        "\ud800",
        "9" * 9_000,
    ):
        assert not parses_as_python(source)


def test_strict_json_and_safe_xml() -> None:
    """JSON is strict; XML expands nothing, reads no encoding declaration, and survives depth."""
    assert not any(map(parses_as_json, ("NaN", "{'a': 1}", "[" * 100_000, "\ud800", "", '{"a": 1,}')))
    assert parses_as_json('{"a": [1.5, null, "é"]}')
    assert parses_as_xml('<?xml version="1.0"?>\n<a b="c">é</a>')
    assert not any(
        map(parses_as_xml, ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "<a>", "", "\ud800", "<a>" * 50_000))
    )


@pytest.mark.parametrize(
    ("source", "balanced"),
    [
        ("f(a[1], {2})", True),
        ("f(a]", False),
        ("s = '(' # (", True),
        ('"\\")"', True),
        ("/* ( */ x()", True),
        ("", True),
        (")", False),
    ],
)
def test_brackets(source: str, balanced: bool) -> None:
    """Brackets balance outside strings and comments."""
    assert balanced == brackets_balance(source)


def test_reading_grade_rises_with_harder_prose() -> None:
    """Longer words and sentences read at a higher grade."""
    easy = reading_grade(
        TextView("The cat sat on the mat. The dog ran to the tree. We had tea and then we went to bed.")
    )
    hard = reading_grade(
        TextView(
            "Institutional accountability necessitates comprehensive documentation of administrative deliberations, "
            "notwithstanding considerable organisational complexity and perpetually insufficient resources, "
            "unfortunately unavailable in numerous municipalities."
        )
    )

    assert easy is not None
    assert hard is not None
    assert easy < 5 < 15 < hard
