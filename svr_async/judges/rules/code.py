"""Checks of code: that there is some, in which language, whether it parses, whether it is complete.

Code is parsed, never run. Blocks that are too large to parse are left out.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from xml.parsers import expat

import orjson

from svr_async.judges.rules.intent import asked_code_language, wants_code
from svr_async.judges.rules.lexicon import CODE_LANGUAGES, CODE_TAGS, PLACEHOLDER_CODE
from svr_async.judges.rules.spec import Choice, Finding, both_ways, of_response, spec, yes_if
from svr_async.judges.rules.text import CodeBlock, TextView

# Every check takes (prompt, response, **args), whether it needs the prompt or not.
# ruff: noqa: ARG001

MAX_PARSED_CHARS = 200_000
MAX_PYTHON_CHARS = 60_000
_PARSER_LOCK = threading.Lock()
_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTED_OR_COMMENT = re.compile(
    r"""//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/|"(?:[^"\\\n]|\\.){0,200}+"|'(?:[^'\\\n]|\\.){0,200}+'""",
)
_NOT_BRACKET = re.compile(r"[^()\[\]{}]+")
_DEFINES = re.compile(
    r"\b(?:def|function|func|fn|class|interface|struct|sub|void|public|private|static)\s{1,4}\w|=>|\blambda\b|\bSELECT\b|\bCREATE\b",
    re.IGNORECASE,
)
_PYTHON_HINT = re.compile(r"^(?:import \w|from \w[\w.]* import |def \w+\(|class \w+[(:]|print\()", re.MULTILINE)
_COMMENT_MARK = re.compile(r"(?:^|\s)(?:#|//|--|/\*|<!--|%)\s?\w")


def language_of_block(block: CodeBlock) -> str:
    """Return the code language that a fence names, by its usual tag; empty where it names none."""
    return CODE_TAGS.get(block.language, block.language)


def parses_as_python(source: str) -> bool:
    """Whether a text is syntactically valid Python; False for anything that the parser gives up on."""
    try:
        with _PARSER_LOCK, warnings.catch_warnings():  # an invalid escape warns while parsing
            warnings.simplefilter("ignore")
            ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return False
    return True


def parses_as_json(source: str) -> bool:
    """Whether a text is one strict JSON document."""
    try:
        orjson.loads(source)
    except ValueError:
        return False
    return True


class _EntityError(Exception):
    """An XML document that declares entities, which are never expanded."""


def _refuse_entity(*_: object) -> None:
    raise _EntityError


def parses_as_xml(source: str) -> bool:
    """Whether a text is well-formed XML. A document that declares entities is refused unread."""
    parser = expat.ParserCreate("utf-8")
    parser.EntityDeclHandler = _refuse_entity
    try:
        parser.Parse(source.strip().encode("utf-8"), True)
    except (expat.ExpatError, _EntityError, ValueError):
        return False
    return True


def brackets_balance(source: str) -> bool:
    """Whether brackets outside strings and comments open and close in order."""
    bare = _QUOTED_OR_COMMENT.sub("", source)
    stack: list[str] = []
    for bracket in _NOT_BRACKET.sub("", bare):
        if bracket not in _PAIRS:
            stack.append(bracket)
        elif not stack or stack.pop() != _PAIRS[bracket]:
            return False
    return not stack


def _share(passed: int, total: int) -> Finding | None:
    """Pass when all of some blocks pass, by the share that does; None where there are no blocks."""
    return Finding(passed == total, passed / total) if total else None


def code_block(prompt: TextView, response: TextView) -> Finding:
    """There is at least one fenced block of code."""
    return yes_if(response.layout.code)


def code_in(prompt: TextView, response: TextView, *, language: str) -> Finding:
    """A fence names the given language; a lone block without a name passes where nothing speaks against it."""
    named = {language_of_block(block) for block in response.layout.code}
    return yes_if(language in named or named == {""})


def code_in_asked_language(prompt: TextView, response: TextView) -> Finding | None:
    """Fenced code is in the language that the prompt names. Abstains where it names none or there is no code."""
    asked = asked_code_language(prompt)
    if asked is None or not response.layout.code:
        return None
    return code_in(prompt, response, language=asked)


def code_when_asked(prompt: TextView, response: TextView) -> Finding | None:
    """A prompt that asks for code gets code, fenced or plainly recognisable. Abstains for other prompts."""
    if not wants_code(prompt):
        return None
    return yes_if(response.layout.code or _DEFINES.search(response.head.text))


def no_uncalled_code(prompt: TextView, response: TextView) -> Finding | None:
    """A prompt that does not ask for code gets none. Abstains where code is asked for."""
    return None if wants_code(prompt) else yes_if(not response.layout.code)


def fences_named(prompt: TextView, response: TextView) -> Finding | None:
    """Every code fence names its language; by the share that does. Abstains where there is no code."""
    code = response.layout.code
    return _share(sum(bool(block.language) for block in code), len(code))


@of_response
def python_parses(view: TextView) -> Finding | None:
    """Every Python block parses; by the share that does. Abstains where there is none of a size to parse."""
    blocks = [block.body for block in view.layout.code if _is_python(block) and len(block.body) <= MAX_PYTHON_CHARS]
    return _share(sum(map(parses_as_python, blocks)), len(blocks))


def _is_python(block: CodeBlock) -> bool:
    named = language_of_block(block)
    return named == "python" or (not named and bool(_PYTHON_HINT.search(block.body[:MAX_PYTHON_CHARS])))


@of_response
def json_parses(view: TextView) -> Finding | None:
    """Every JSON block is strict JSON; by the share that is. Abstains where there is none."""
    blocks = [block.body for block in view.layout.code if language_of_block(block) == "json"]
    return _share(sum(map(parses_as_json, blocks)), len(blocks))


@of_response
def json_only(view: TextView) -> bool:
    """The response is one JSON object or array, alone or in one fence, and nothing else."""
    code = view.layout.code
    text = code[0].body if len(code) == 1 and not view.layout.prose.strip() else view.text
    text = text.strip()
    return text[:1] in ("{", "[") and parses_as_json(text)


@of_response
def xml_parses(view: TextView) -> Finding | None:
    """Every XML block is well-formed; by the share that is. Abstains where there is none of a size to parse."""
    blocks = [b.body for b in view.layout.code if language_of_block(b) == "xml" and len(b.body) <= MAX_PARSED_CHARS]
    return _share(sum(map(parses_as_xml, blocks)), len(blocks))


@of_response
def brackets_in_code(view: TextView) -> Finding | None:
    """Brackets balance in every code block; by the share. Abstains where there is none of a size to read."""
    blocks = [block.body for block in view.layout.code if len(block.body) <= MAX_PARSED_CHARS]
    return _share(sum(map(brackets_balance, blocks)), len(blocks))


def elided_code(prompt: TextView, response: TextView) -> Finding | None:
    """Code stands in for itself with remarks such as "your code here". Abstains where there is no code."""
    code = response.layout.code
    return yes_if(any(mark in block.body.lower() for block in code for mark in PLACEHOLDER_CODE)) if code else None


def commented_code(prompt: TextView, response: TextView) -> Finding | None:
    """At least one block of code carries a comment. Abstains where there is no code."""
    code = response.layout.code
    return yes_if(any(_COMMENT_MARK.search(block.body) for block in code)) if code else None


def explained_code(prompt: TextView, response: TextView) -> Finding | None:
    """At least 25 words outside the code explain it; more of them, up to 200, are better. Abstains without code."""
    if not response.layout.code:
        return None
    words = len(response.prose.words)
    return Finding(words >= 25, float(min(words, 200)))


CHECKS = (
    *both_ways(code_block, "contains a code block", "no_code_block", "does not contain a code block", facet="format"),
    spec(
        code_in,
        "contains a code block in {language}",
        facet="format",
        language=(Choice(CODE_LANGUAGES), tuple(CODE_LANGUAGES)),
    ),
    spec(code_in_asked_language, "'s code is in the programming language that the prompt names", facet="correctness"),
    *both_ways(
        code_when_asked,
        "gives code where the prompt asks for code",
        "withholds_code",
        "leaves out the code that the prompt asks for",
        facet="coverage",
    ),
    spec(no_uncalled_code, "gives no code where the prompt does not ask for any", facet="format"),
    spec(fences_named, "names the language of every code block", facet="format"),
    *both_ways(
        python_parses, "'s Python code parses", "python_broken", "'s Python code does not parse", facet="correctness"
    ),
    *both_ways(json_parses, "'s JSON parses", "json_broken", "'s JSON does not parse", facet="correctness"),
    spec(json_only, "is a JSON document and nothing else", facet="format"),
    *both_ways(xml_parses, "'s XML is well-formed", "xml_broken", "'s XML is not well-formed", facet="correctness"),
    *both_ways(
        brackets_in_code,
        "'s code has balanced brackets",
        "unbalanced_code",
        "'s code has unbalanced brackets",
        facet="correctness",
    ),
    *both_ways(
        elided_code,
        "'s code leaves parts to be filled in",
        "complete_code",
        "'s code leaves no part to be filled in",
        facet="coverage",
    ),
    *both_ways(
        commented_code, "'s code carries comments", "uncommented_code", "'s code carries no comments", facet="style"
    ),
    *both_ways(
        explained_code,
        "explains its code in prose",
        "unexplained_code",
        "gives code with little prose around it",
        facet="coverage",
    ),
)
