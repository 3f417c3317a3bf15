"""What the checks read in a text: words, sentences, blocks, language, requests for code, danger, parsers."""

from __future__ import annotations

import warnings

import pytest

from svr_async.judges.rules.code import parses_as_json, parses_as_python, parses_as_xml
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
