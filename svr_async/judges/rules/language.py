"""Detects the natural language of a text, by script and common short words, and checks it.

Some three dozen languages are known. For a text that is too short or too mixed, the checks abstain.
"""

from __future__ import annotations

import re
from collections import Counter

from svr_async.judges.rules.spec import CheckTable, choice
from svr_async.judges.rules.text import TextView, kept

LANGUAGES = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "cs": "Czech", "da": "Danish", "de": "German", "el": "Greek",
    "en": "English", "es": "Spanish", "fa": "Persian", "fi": "Finnish", "fr": "French", "he": "Hebrew",
    "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian", "ja": "Japanese",
    "ko": "Korean", "nl": "Dutch", "no": "Norwegian", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian",
    "ru": "Russian", "sr": "Serbian", "sv": "Swedish", "ta": "Tamil", "th": "Thai", "tl": "Tagalog", "tr": "Turkish",
    "uk": "Ukrainian", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip

CHECKS = CheckTable()
SAMPLE_CHARS = 6_000
SAMPLE_WORDS = 600

_SHORT_WORDS = {
    "en": "the of and to a in is that it for you with on are as this be or have not from can by at your which an will",
    "fr": "le la les des de et est un une que qui dans pour pas vous je il elle sur avec ce sont plus au nous ne du",
    "es": "el la los las de y que en un una es por para con no se del su al lo como más pero esta son este muy",
    "pt": "o a os as de e que em um uma é por para com não se do da no na ao mais como mas são você isso está foi dos",
    "it": "il la lo gli le di e che un una è per con non si del della nel sono al come più ma questo da ha anche dei",
    "de": "der die das und ist nicht ein eine zu den mit von für auf sich im es auch dem als werden sie ich wie bei",
    "nl": "de het een en van is dat in te op voor niet met zijn die je er aan ook als maar om bij naar kan worden deze",
    "sv": "och att det som en är på för av med den till inte ett de har jag om kan du vi från så eller men när ska",
    "da": "og at det som en er på for af med den til ikke et de har jeg om kan du vi fra så eller men når skal også",
    "no": "og at det som en er på for av med den til ikke et de har jeg om kan du vi fra så eller men når skal også",
    "fi": "ja on ei se että joka ovat myös kuin mutta tai hän oli kanssa sekä voi ole tämä jos niin kun mitä minä sinä",
    "pl": "i w na z się nie do że to jest jak o ale co od za po przez dla są może tym ich jego być które oraz czy tak",
    "cs": "a v na se je že to s z do jak o ale co od za po pro jsou může být které nebo by jako jsem také tak není",
    "hr": "je se na i u da su za od koji koja nije kao što će biti ali ili sam ovo može samo iz po kako bio ovaj prema",
    "ro": "și în de la cu nu pe este că un o care din pentru mai sunt să au fi dar sau prin acest această lui ca poate",
    "hu": "a az és hogy nem is egy van ez meg csak de ha már vagy mint volt lehet nagyon amely azt kell ezt minden",
    "tr": "ve bir bu için ile de da çok olarak daha gibi en ne var olan ama kadar sonra değil mi ben sen o olduğunu",
    "id": "yang dan di untuk dengan ini itu dari dalam tidak pada adalah akan ke saya anda atau bisa juga oleh ada",
    "vi": "và của là có cho không được một các trong với để này những người khi đã tôi bạn như từ cũng thể nhiều",
    "tl": "ang ng sa mga na at ay ko mo siya ito para hindi ako ka kung niya may lang nang namin kami sila po ba",
}
_LANGUAGES_OF_WORD: dict[str, tuple[str, ...]] = {}
for _code, _words in _SHORT_WORDS.items():
    for _word in set(_words.split()):
        _LANGUAGES_OF_WORD[_word] = (*_LANGUAGES_OF_WORD.get(_word, ()), _code)

_SPECIAL_LETTERS = {
    "hr": "čćđšž",
    "fr": "çœùûêî", "es": "ñ¿¡", "pt": "ãõ", "it": "ìò", "de": "ßäü", "sv": "åä", "da": "æø", "no": "æø", "fi": "äö",
    "pl": "łąęśżźćń", "cs": "řěůčžýš", "ro": "ățșşţ", "hu": "őűöü", "tr": "ğışİ",
    "vi": "ơưđạảấầẩậắằếềểễệịọỏốồổộớờợụủứừửữựỳỷỹ",
}  # fmt: skip
_NOT_LATIN = re.compile("[\u0370-\u1dff\u1f00-\u1fff\u3040-\ud7ff\uf900-\ufdff\ufe70-\ufeff]")
_SCRIPTS = {
    "el": re.compile("[\u0370-\u03ff\u1f00-\u1fff]"),
    "ru": re.compile("[\u0400-\u04ff]"),
    "he": re.compile("[\u0590-\u05ff]"),
    "ar": re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc]"),
    "hi": re.compile("[\u0900-\u097f]"),
    "bn": re.compile("[\u0980-\u09ff]"),
    "ta": re.compile("[\u0b80-\u0bff]"),
    "th": re.compile("[\u0e00-\u0e7f]"),
    "ja": re.compile("[\u3040-\u30ff]"),
    "ko": re.compile("[\uac00-\ud7a3\u1100-\u11ff]"),
    "zh": re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"),
}
_LATIN_LETTER = re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]")
_DENSE = frozenset(("zh", "ja", "ko"))
MIN_SHARE = 0.3
"""From this share of its letters on, a script counts as the text's own; short quotations stay below it."""


@kept
def language_of(view: TextView) -> str | None:
    """Return the language code of a text's prose; None if it is not clear."""
    sample, counts = view.prose.text[:SAMPLE_CHARS], _scripts(view)
    script, most = counts.most_common(1)[0] if counts else ("", 0)
    weighted = most * (3 if script in _DENSE else 1)
    if not most or weighted < MIN_SHARE * (weighted + len(_LATIN_LETTER.findall(sample))):
        return _latin_language(sample)
    return _within_script(script, sample, counts)


@kept
def _scripts(view: TextView) -> Counter[str]:
    """Count the letters of each script that is not Latin, under the code of its most spoken language."""
    sample = view.prose.text[:SAMPLE_CHARS]
    if sample.isascii() or not _NOT_LATIN.search(sample):
        return Counter()
    return +Counter({script: len(pattern.findall(sample)) for script, pattern in _SCRIPTS.items()})


def _within_script(script: str, sample: str, counts: Counter[str]) -> str | None:
    """Return the language of a shared script by letters that only one language has; None if outside the list."""
    if script in ("zh", "ja"):
        return "ja" if counts["ja"] * 12 > counts["zh"] else "zh"
    own_letters = {
        "ru": (("", "[өүқңәғӨҮҚҢӘҒ]"), ("sr", "[ђјљњћџЂЈЉЊЋЏ]"), ("uk", "[іїєґІЇЄҐ]"), ("ru", "[ыэёЫЭЁ]"), ("bg", "ъ")),
        "ar": (("fa", "[پچژگ]"),),
    }
    return next((code for code, own in own_letters.get(script, ()) if re.search(own, sample)), script) or None


def _latin_language(sample: str) -> str | None:
    """Score Latin-script languages by short words and special letters; None without a clear winner."""
    lower = sample.lower()
    words = re.findall(r"[^\W\d_]+", lower)[:SAMPLE_WORDS]
    scores: Counter[str] = Counter()
    for word, count in Counter(words).items():
        for code in _LANGUAGES_OF_WORD.get(word, ()):
            scores[code] += count * (2 if len(word) > 2 else 1)
    if not lower.isascii():
        for code, letters in _SPECIAL_LETTERS.items():
            scores[code] += sum(map(lower.count, letters))
    (first, best), (second, next_best) = [*scores.most_common(2), ("", 0), ("", 0)][:2]
    clear = best >= 1.15 * next_best or {first, second} == {"da", "no"}  # these two differ too little to abstain
    return first if clear and best >= max(3, len(words) // 12) else None


_MOVED = re.compile(
    r"\btranslat|\b(?:in|into|to|auf|en) (?:" + "|".join(LANGUAGES.values()) + r")\b|\blanguages?\b", re.IGNORECASE
)


@kept
def _asks_for_other_language(prompt: TextView) -> bool:
    return bool(_MOVED.search(prompt.head.text))


@CHECKS.add("is in the same language as the prompt", "language")
def same_language(prompt: TextView, response: TextView) -> bool | None:
    """The response's language is the prompt's. Abstains for translations, and if either language is not clear."""
    asked, answered = language_of(prompt), language_of(response)
    return None if None in (asked, answered) or _asks_for_other_language(prompt) else asked == answered


@CHECKS.add("is written in {language}", "language", language=choice(LANGUAGES))
def in_language(response: TextView, *, language: str) -> bool | None:
    """The response's prose is in one given language. Abstains if its language is not clear."""
    found = language_of(response)
    return None if found is None else found == language


@CHECKS.add("contains a passage in {language}", "language", language=choice(LANGUAGES))
def contains_language(response: TextView, *, language: str) -> bool | None:
    """The response, or a line of it, is in one given language. Abstains if no line's language is clear."""
    found = _languages_of_lines(response)
    return language in found if found else None


@kept
def _languages_of_lines(view: TextView) -> frozenset[str]:
    lines = [part for line in view.prose.lines[:80] for part in (line[:400], line[:400].partition(":")[2])]
    return frozenset(filter(None, (language_of(view), *(language_of(TextView(line)) for line in lines))))


@CHECKS.add("does not mix writing systems", "language")
def keeps_one_script(prompt: TextView, response: TextView) -> bool | None:
    """The response uses no script that neither its own language nor the prompt uses. Abstains for translations."""
    counts = _scripts(response)
    if not counts:
        return True
    if _asks_for_other_language(prompt):
        return None
    asked = _scripts(prompt)
    own = language_of(response)
    related = {"ru": {"uk", "bg", "sr"}, "ar": {"fa"}, "zh": {"ja", "ko"}}
    return not any(n > 1 and not asked[s] and own != s and own not in related.get(s, set()) for s, n in counts.items())
