"""Prompt templates: plain text files, a set that ships or a folder of the user's own, known by digest.

A file is of one of two forms. With a line `=== closing ===` it has the instructions that open a request, and the lines
that close it after the fenced material. With a line `=== user ===` it has a system and a user message that are laid out
freely: words in braces are the places of the material.

Untrusted texts stand between fences. The tag in a fence is a hash of the texts: the same pair gives the same bytes, so
the cache works, and no candidate can contain its own tag.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from svr_async.core.files import read_plain
from svr_async.core.pair import PreferencePair, Presentation, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.errors import ConfigError

SHIPPED = Path(__file__).parent / "prompts"
PAPER = Path("paper")  # the name of the set with the layouts of the paper's appendix (`app:prompts`)
DIVIDER = "=== closing ==="
FREE_DIVIDER = "=== user ==="
FENCED = "fenced "
_PAIR = ("prompt", "response_a", "response_b")
PLACES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "direct": _PAIR,
        "compare": (*_PAIR, "rubrics"),
        "compare_overall": (*_PAIR, "rubrics"),
        "self_rubrics": ("prompt",),
        "pointwise": ("prompt", "response", "rubrics"),
        "contrastive": ("prompt", "chosen", "rejected"),
        "descriptive": ("prompt", "chosen"),
        "probe": ("prompt", "chosen"),
        "rephrase": ("prompt", "rubrics"),
        "same_criterion": ("known", "new"),
        "rrd_rubrics": ("prompt", "responses"),
        "rrd_decompose": ("prompt", "responses", "rubrics"),
        "rrd_judge": ("prompt", "response", "rubrics"),
        "rrd_filter": ("prompt", "rubrics"),
        "arm_rubrics": ("prompt",),
        "arm_judge": (*_PAIR, "rubric"),
        "arrow_rubrics": ("prompt",),
        "arrow_judge": ("prompt", "response", "rubric"),
        "rm_r1": _PAIR,
    }
)
"""The places that a free layout needs, by prompt; all but rubrics may be fenced, `note` is optional."""
NAMES = tuple(PLACES)[:10]
OWN = tuple(PLACES)[10:]  # of single methods: each digest is in the runs of its method only
DECIDING = ("decide",)  # of decision judges, which use no other
EVERY = NAMES + OWN + DECIDING
TAG_SALT = b"svr-fence-2"
_PLACE = re.compile(r"\{((?:fenced )?[a-z][a-z_]*)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """What a request says around its material: `instructions` before it and `closing` after it.

    With `free`, both are messages, to the system and from the user, that hold places of the material.
    """

    instructions: str
    closing: str
    free: bool = False


@dataclass(frozen=True, slots=True)
class Templates:
    """All templates by name, with the digest of each text."""

    by_name: Mapping[str, Template]
    digests: Mapping[str, str]

    def __getitem__(self, name: str) -> Template:
        return self.by_name[name]


def load_templates(folder: Path | None = None, names: Sequence[str] = NAMES) -> Templates:
    """Load the shipped templates, each replaced by `folder/NAME.txt` if that exists; ConfigError on a bad one.

    The folder `paper` is the shipped set of that name, which has no pointwise, descriptive, rephrase and decide.
    """
    texts = {name: _text_of(SHIPPED / f"{name}.txt") for name in names}
    if folder is not None:
        texts |= {name: text for name, text in _replacements(folder).items() if name in names}
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}
    return Templates({name: _parse(name, text) for name, text in texts.items()}, digests)


def _replacements(folder: Path) -> dict[str, str]:
    place = SHIPPED / PAPER if folder == PAPER else folder
    if not place.is_dir():
        hint = f"put any of {', '.join(EVERY)}.txt into one, or name the set paper"
        raise ConfigError(f"--prompts {folder} is not a folder", hint=hint)
    found = {path.stem: _text_of(path) for path in sorted(place.glob("*.txt"))}
    unknown = sorted(set(found) - set(EVERY))
    if unknown or not found:
        what = f"{unknown[0]}.txt, which no role uses" if unknown else "no prompt"
        raise ConfigError(f"--prompts {folder} holds {what}", hint=f"the names are {', '.join(EVERY)}")
    return found


def _text_of(path: Path) -> str:
    try:
        return read_plain(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"cannot read the prompt '{path}': {why}") from error


def _parse(name: str, text: str) -> Template:
    head, free, body = text.partition(FREE_DIVIDER)
    if free:
        return _laid_out(name, Template(head.strip(), body.strip(), free=True))
    instructions, divider, closing = text.partition(DIVIDER)
    if not divider or not instructions.strip() or not closing.strip():
        problem = f"the prompt {name} needs instructions, a line '{DIVIDER}' and closing lines"
        raise ConfigError(problem, hint=f"for a layout of your own: a line '{FREE_DIVIDER}' and places")
    return Template(instructions.strip(), closing.strip())


def _laid_out(name: str, template: Template) -> Template:
    """Check the places of a free layout: every required one, and only known ones."""
    needed = PLACES.get(name, ())
    text = template.instructions + template.closing
    if not needed or DIVIDER in text or not template.closing:
        problem = f"the prompt {name} has no free layout, has both dividers, or has no user message"
        raise ConfigError(problem, hint=f"write a system message, a line '{FREE_DIVIDER}', and a user message")
    used, known = set(_PLACE.findall(text)), {*needed, *(FENCED + one for one in needed if one != "rubrics")}
    known |= {"note"} if "response_a" in needed and "rubrics" in needed else set()
    hint = f"the places of {name} are {', '.join(f'{{{one}}}' for one in (*needed, *sorted(known - set(needed))))}"
    if unknown := sorted(used - known):
        problem = f"the prompt {name} has the place {{{unknown[0]}}}, which is unknown"
        raise ConfigError(problem, hint=f"{hint}; other words take '{{ }}'")
    if missing := [one for one in needed if not used & {one, FENCED + one}]:
        raise ConfigError(f"the prompt {name} lacks the place {{{missing[0]}}}", hint=hint)
    return template


def clean(text: str) -> str:
    """Return text that can be sent as UTF-8: lone surrogates and NUL become U+FFFD."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\x00", "\ufffd")


@dataclass(frozen=True, slots=True)
class Material:
    """Texts by the name of their fence, in the order shown; rubrics (None for a request without them) and a note."""

    texts: Mapping[str, str]
    rubrics: Sequence[Rubric] | None = None
    note: str = ""

    @classmethod
    def pair(cls, shown: Presentation, rubrics: Sequence[Rubric] | None = None, note: str = "") -> Material:
        """Return a pair as a judge sees it."""
        texts = {"PROMPT": prompt_text(shown.prompt), "RESPONSE_A": shown.response_a, "RESPONSE_B": shown.response_b}
        return cls(texts, rubrics, note)

    @classmethod
    def preference(cls, pair: PreferencePair, *, rejected: bool) -> Material:
        """Return a pair as an author sees it, with the preferred response named."""
        texts = {"PROMPT": prompt_text(pair.prompt), "CHOSEN": pair.chosen}
        return cls(texts | ({"REJECTED": pair.rejected} if rejected else {}))

    def within(self, template: Template) -> tuple[tuple[str, str], ...]:
        """Return the messages of a request: roles and texts."""
        if not template.free:
            return ("system", template.instructions), ("user", f"{self.fenced()}\n\n{template.closing}")
        places = {name.lower(): clean(text) for name, text in self.texts.items()}
        places |= {FENCED + name.lower(): text for name, text in self._fences().items()}
        places |= {"rubrics": listing(self.rubrics or ()), "note": clean(self.note)}
        # each place is replaced once, so that braces in a text stay
        messages = {"system": template.instructions, "user": template.closing}
        return tuple((r, _PLACE.sub(lambda place: places[place[1]], text)) for r, text in messages.items() if text)

    def fenced(self) -> str:
        """Return all of it as the shipped prompts show it: the fenced texts and note, then rubrics."""
        parts = [*self._fences().values()]
        if self.rubrics is not None:
            parts.append(f"Rubrics:\n{listing(self.rubrics)}")
        return "\n\n".join(parts)

    def _fences(self) -> dict[str, str]:
        texts = {name: clean(text) for name, text in self.texts.items()}
        if self.note:  # written by a model: data, as the responses are
            texts["NOTE"] = " ".join(clean(self.note).split())
        tag = tag_of(texts.values())
        return {name: f"<<svr:{tag}:{name}>>\n{text}\n<<svr:{tag}:END>>" for name, text in texts.items()}


def tag_of(texts: Iterable[str]) -> str:
    """Return 16 hex digits derived from the texts."""
    data = [text.encode() for text in texts]
    lengths = ":".join([str(len(one)) for one in data])
    return hashlib.blake2b(b"".join([TAG_SALT, lengths.encode(), *data]), digest_size=8).hexdigest()


def listing(rubrics: Sequence[Rubric]) -> str:
    """Return the rubrics as a request shows them: one per line, with their local ids."""
    return "\n".join([f"R{n}: {' '.join(clean(rubric.text).split())}" for n, rubric in enumerate(rubrics, 1)])
