"""What the checks read in a text: words, sentences, blocks, language, requests for code, danger, parsers."""

from __future__ import annotations

import warnings

import pytest

from svr_async.judges.rules.code import asked_code_language, parses_as_json, parses_as_python, parses_as_xml, wants_code
from svr_async.judges.rules.language import language_of
from svr_async.judges.rules.safety import danger, seems_harmful
from svr_async.judges.rules.text import TextView

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
def test_languages_are_detected(code: str) -> None:
    """A sentence or two is enough to detect a language, by script or by its short words."""
    assert code == language_of(TextView(TEXTS[code]))


@pytest.mark.parametrize("text", ["", "42", "ok", "Qxz vbn wrt plk", "Қазақстан Орталық Азияда орналасқан", "ሰላም ለዓለም"])
def test_unknown_languages_are_left_open(text: str) -> None:
    """A text too short, of no known language, or of a script outside the list has no language."""
    assert language_of(TextView(text)) is None


@pytest.mark.parametrize(
    ("prompt", "code", "language"),
    [
        ("Write a function that sorts a list", True, None),
        ("Fix this:\n```\nx = \n```", True, None),
        ("How do I read a file in C++17?", True, "cpp"),
        ("Write a poem about snakes", False, None),
        ("Where is Java island?", False, "java"),
        ("Show me how to sort in C#", True, "csharp"),
        ("in Golang", False, "go"),
        ("JavaScript, not Java", False, None),
        ("go to town", False, None),
    ],
)
def test_asked_code(prompt: str, code: bool, language: str | None) -> None:
    """Code is asked for if a program or language is named and something is to be made; one language named counts."""
    assert (wants_code(TextView(prompt)), asked_code_language(TextView(prompt))) == (code, language)


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
    deep = ("(" * 50_000, "-" * 50_000 + "1", "1" + "+1" * 25_000, "a" + ".b" * 25_000)
    assert not any(map(parses_as_python, (*deep, "\x00", "\ud800", "9" * 9_000)))


def test_strict_json_and_safe_xml() -> None:
    """JSON is strict; XML expands nothing, reads no encoding declaration, and survives depth."""
    assert not any(map(parses_as_json, ("NaN", "{'a': 1}", "[" * 100_000, "\ud800", "", '{"a": 1,}')))
    assert parses_as_json('{"a": [1.5, null, "é"]}')
    assert parses_as_xml('<?xml version="1.0"?>\n<a b="c">é</a>')
    assert not any(
        map(parses_as_xml, ('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "<a>", "", "\ud800", "<a>" * 50_000))
    )


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ('He said "Stop." Then he ran.', ['He said "Stop."', "Then he ran."]),
        ("Dr. A. Smith, e.g., came at 5 p.m. today.", ["Dr. A. Smith, e.g., came at 5 p.m. today."]),
        ("Wait... what?!", ["Wait...", "what?!"]),
        ("wrapped\nonto a new line. End", ["wrapped\nonto a new line.", "End"]),
        ("Title\nBody", ["Title", "Body"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("It was 1999. Then 2000.", ["It was 1999.", "Then 2000."]),
        ("一。二！", ["一。", "二！"]),
        ("```\na. b. c.\n```\nOne.", ["One."]),
        ("...", []),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    """Sentences end at marks or unwrapped line breaks, not at abbreviations, initials or list numbers."""
    assert sentences == TextView(text).sentences


def test_layout_reads_blocks() -> None:
    """Code, items, headings and tables are separate, and prose leaves the code out."""
    text = "# H\n- a\n  - b\n\n| x | y |\n|:--|--:|\n\n```Python {1}\n- no item\n# no heading\n```\nend"
    layout = TextView(text).layout

    assert (layout.headings, layout.tables) == (1, 1)
    assert [item.indent for item in layout.items] == [0, 2]
    assert [(c.language, c.body, c.closed) for c in layout.code] == [("python", "- no item\n# no heading", True)]
    assert "no item" not in layout.prose
    assert layout.prose.endswith("end")
