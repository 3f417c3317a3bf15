"""Checks of code: whether there is some, in which language, and whether it parses.

Code is parsed, never run. Blocks that are too large to parse are left out.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Callable
from xml.parsers import expat

import orjson

from svr_async.judges.rules.spec import CheckTable, Finding, choice
from svr_async.judges.rules.text import CodeBlock, TextView, kept

MAX_PARSED_CHARS = 200_000
MAX_PYTHON_CHARS = 60_000
CODE_LANGUAGES = {
    "python": "Python", "javascript": "JavaScript", "typescript": "TypeScript", "java": "Java", "c": "C", "cpp": "C++",
    "csharp": "C#", "go": "Go", "rust": "Rust", "ruby": "Ruby", "php": "PHP", "swift": "Swift", "kotlin": "Kotlin",
    "sql": "SQL", "html": "HTML", "css": "CSS", "bash": "Bash", "json": "JSON", "yaml": "YAML", "xml": "XML",
    "r": "R", "latex": "LaTeX", "matlab": "MATLAB", "powershell": "PowerShell", "vba": "VBA",
}  # fmt: skip
_FENCE_TAGS = {
    "py": "python", "python3": "python", "js": "javascript", "jsx": "javascript", "node": "javascript",
    "ts": "typescript", "tsx": "typescript", "c++": "cpp", "cc": "cpp", "c#": "csharp", "cs": "csharp",
    "golang": "go", "rs": "rust", "rb": "ruby", "kt": "kotlin", "sh": "bash", "shell": "bash", "zsh": "bash",
    "console": "bash", "yml": "yaml", "tex": "latex", "ps1": "powershell", "vb": "vba", "mysql": "sql", "tsql": "sql",
    "plsql": "sql", "postgresql": "sql", "jsonc": "json", "svg": "xml", "vue": "html",
}  # fmt: skip
_CODE_NOUNS = (
    " code", " function", " script", " program", " implement", " debug", " refactor", " regex", " query", " class ",
    " snippet", " algorithm", " unit test", " html page", " stylesheet", " macro", " compile", " web app",
)  # fmt: skip
_CODE_VERBS = (
    " write ", " create ", " give me", " generate ", " make ", " fix ", " show ", " rewrite", " convert ",
    " implement", " build ", " how ",
)  # fmt: skip
_NAMES = {label.lower(): tag for tag, label in CODE_LANGUAGES.items() if tag not in ("c", "r", "go", "swift", "json")}
_LABELS = "|".join(re.escape(name) for name in sorted(_NAMES, key=len, reverse=True))
_NAMED_LANGUAGE = re.compile(rf"(?<![\w#+])({_LABELS}|golang)(?![A-Za-z_#+])", re.IGNORECASE)
_PARSER_LOCK = threading.Lock()
_PAIRS = {")": "(", "]": "[", "}": "{"}
_QUOTED_OR_COMMENT = re.compile(
    r"""//[^\n]*+|\#[^\n]*+|/\*(?:[^*]|\*(?!/))*+\*/|"(?:[^"\\\n]|\\.){0,200}+"|'(?:[^'\\\n]|\\.){0,200}+'"""
)
_NOT_BRACKET = re.compile(r"[^()\[\]{}]+")
_DEFINES = re.compile(
    r"\b(?:def|function|func|fn|class|interface|struct|sub|void|public|private|static)\s{1,4}\w|=>|\blambda\b"
    r"|\bSELECT\b|\bCREATE\b",
    re.IGNORECASE,
)
_PYTHON_HINT = re.compile(r"^(?:import \w|from \w[\w.]* import |def \w+\(|class \w+[(:]|print\()", re.MULTILINE)
_COMMENT_MARK = re.compile(r"(?:^|\s)(?:#|//|--|/\*|<!--|%)\s?\w")
CHECKS = CheckTable()


@kept
def wants_code(prompt: TextView) -> bool:
    """Whether a prompt asks for code: it names a language or a program, and asks to write or fix it."""
    if prompt.layout.code:
        return True
    text = prompt.head.plain
    named = any(word in text for word in _CODE_NOUNS) or asked_code_language(prompt) is not None
    return named and any(word in text for word in _CODE_VERBS)


@kept
def asked_code_language(prompt: TextView) -> str | None:
    """Return the programming language that a prompt names; None unless it names exactly one."""
    named = {_NAMES.get(name.lower(), "go") for name in _NAMED_LANGUAGE.findall(prompt.head.text)}
    return named.pop() if len(named) == 1 else None


def parses_as_python(source: str) -> bool:
    """Whether a text is syntactically valid Python; False if the parser gives up."""
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


def parses_as_xml(source: str) -> bool:
    """Whether a text is well-formed XML. A document that declares entities is rejected: they may expand without end."""
    if "<!ENTITY" in source:
        return False
    try:
        expat.ParserCreate("utf-8").Parse(source.strip().encode("utf-8"), True)
    except (expat.ExpatError, ValueError):
        return False
    return True


def brackets_balance(source: str) -> bool:
    """Whether brackets outside strings and comments open and close in order."""
    stack: list[str] = []
    for bracket in _NOT_BRACKET.sub("", _QUOTED_OR_COMMENT.sub("", source)):
        if bracket not in _PAIRS:
            stack.append(bracket)
        elif not stack or stack.pop() != _PAIRS[bracket]:
            return False
    return not stack


def _language_of_block(block: CodeBlock) -> str:
    return _FENCE_TAGS.get(block.language, block.language)


def _all_pass(blocks: list[str], test: Callable[[str], bool], max_chars: int = MAX_PARSED_CHARS) -> Finding | None:
    """Pass if all blocks pass, by the share that does; None without a block short enough."""
    passed = [test(block) for block in blocks if len(block) <= max_chars]
    return Finding(all(passed), sum(passed) / len(passed)) if passed else None


CHECKS.simple("format", ("code_block", "contains a code block", lambda view: view.layout.code))


@CHECKS.add("contains a code block in {language}", "format", language=choice(CODE_LANGUAGES))
def code_in(response: TextView, *, language: str) -> bool:
    """A fence names the given language, or there are only fences without a language."""
    named = {_language_of_block(block) for block in response.layout.code}
    return language in named or named == {""}


@CHECKS.add("contains code if the prompt asks for it", "coverage")
def code_when_asked(prompt: TextView, response: TextView) -> bool | None:
    """A prompt that asks for code gets code, fenced or recognisable. Abstains for other prompts."""
    return bool(response.layout.code or _DEFINES.search(response.head.text)) if wants_code(prompt) else None


@CHECKS.add("names the language of every code block", "format")
def fences_named(response: TextView) -> Finding | None:
    """Every code fence names its language; by the share that does. Abstains without code."""
    return _all_pass([block.language for block in response.layout.code], bool)


@CHECKS.add("'s Python code parses", "correctness")
def python_parses(response: TextView) -> Finding | None:
    """Every Python block parses; by the share that does. Abstains without a block short enough."""
    return _all_pass([b.body for b in response.layout.code if _is_python(b)], parses_as_python, MAX_PYTHON_CHARS)


def _is_python(block: CodeBlock) -> bool:
    named = _language_of_block(block)
    return named == "python" or (not named and bool(_PYTHON_HINT.search(block.body[:MAX_PYTHON_CHARS])))


@CHECKS.add("'s JSON parses", "correctness")
def json_parses(response: TextView) -> Finding | None:
    """Every JSON block is strict JSON; by the share that is. Abstains without JSON blocks."""
    return _all_pass([b.body for b in response.layout.code if _language_of_block(b) == "json"], parses_as_json)


@CHECKS.add("'s XML is well-formed", "correctness")
def xml_parses(response: TextView) -> Finding | None:
    """Every XML block is well-formed; by the share that is. Abstains without a block short enough."""
    return _all_pass([b.body for b in response.layout.code if _language_of_block(b) == "xml"], parses_as_xml)


@CHECKS.add("is a JSON document and nothing else", "format")
def json_only(response: TextView) -> bool:
    """The response is one JSON object or array, alone or in one fence, and nothing else."""
    code = response.layout.code
    text = (code[0].body if len(code) == 1 and not response.layout.prose.strip() else response.text).strip()
    return text[:1] in ("{", "[") and parses_as_json(text)


@CHECKS.add("'s code has balanced brackets", "correctness")
def brackets_in_code(response: TextView) -> Finding | None:
    """Brackets balance in every code block; by the share. Abstains without a block short enough."""
    return _all_pass([block.body for block in response.layout.code], brackets_balance)


@CHECKS.add("'s code has comments", "style")
def commented_code(response: TextView) -> bool | None:
    """At least one block of code carries a comment. Abstains without code."""
    code = response.layout.code
    return any(_COMMENT_MARK.search(block.body) for block in code) if code else None
