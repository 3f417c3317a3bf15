"""Which judge is meant: what follows `--judge`, read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from svr_async.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from svr_async.engine.money import Price
    from svr_async.judges.profile import Profile

RULES = "rules"
RECORDED = "recorded:"
WITH_RULES = "+rules"
WAYS_TO_NAME = (
    "--judge http://HOST:PORT/v1#MODEL is your own endpoint, --judge gpt-5.6-luna one that `svr judges` lists, "
    "--judge rules offline checks without a model"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSpec:
    """A judge by its name: `rules`, `recorded:PATH`, or, with a `profile`, one behind an endpoint.

    `text` is the name as written. `+rules` at its end puts the rules judge in front of an endpoint's; `decisions:`,
    `systemone:` and `logprobs:` at its beginning ask for probabilities, `rm:` for the scores of a reward model.
    """

    text: str
    profile: Profile | None = None
    recording: Path | None = None

    @classmethod
    def parse(cls, text: str, *, base_url: str = "") -> Self:
        """Read a judge's name; ConfigError for one that is not known, UsageError for none: nobody judges by default.

        `base_url` goes over the profile's.
        """
        if not text:
            raise UsageError("no judge is named", hint=WAYS_TO_NAME)
        if text == RULES:
            return cls(text=text)
        if text.startswith(RECORDED):
            path = text.removeprefix(RECORDED)
            if not path:
                raise ConfigError("--judge recorded: names no file", hint="write it as recorded:replies.jsonl")
            return cls(text=text, recording=Path(path))
        from svr_async.judges.deciders import find_decider, wire_of
        from svr_async.judges.profiles import find_profile
        from svr_async.judges.rewarders import REWARDS, find_rewarder

        name = text.removesuffix(WITH_RULES)
        scores = find_rewarder if name.startswith(REWARDS) else find_profile
        find = find_decider if wire_of(name) else scores
        spec = cls(text=text, profile=find(name, base_url=base_url))
        if spec.scores and spec.hybrid:
            raise ConfigError(f"--judge {text}: a reward model reads no rubrics", hint=f"leave {WITH_RULES} out")
        return spec

    def priced(self, price: Price | None) -> Self:
        """Return the judge at a price that was given; the same where there is none, or nothing is paid."""
        if price is None or self.profile is None:
            return self
        return replace(self, profile=replace(self.profile, price=price, price_date="", price_source="--price"))

    @property
    def decides(self) -> bool:
        """Whether the judge answers with probabilities."""
        return self.profile is not None and self.profile.spoken.questions > 0

    @property
    def scores(self) -> bool:
        """Whether the judge is a scalar reward model."""
        return self.profile is not None and self.profile.spoken.score

    @property
    def writes(self) -> bool:
        """Whether a model answers with texts: others write nothing, neither rubrics nor responses."""
        return self.profile is not None and not self.decides and not self.scores

    @property
    def prompts(self) -> Sequence[str]:
        """The templates that the judge is asked with."""
        from svr_async.judges.templates import DECIDING, NAMES

        if self.profile is None or self.scores:
            return ()
        return DECIDING if self.decides else NAMES

    @property
    def hybrid(self) -> bool:
        """Whether the rules judge stands in front of an endpoint's."""
        return self.profile is not None and self.text.endswith(WITH_RULES)

    @property
    def name(self) -> str:
        """What a run calls the judge."""
        if self.profile is not None:
            return self.profile.name + (WITH_RULES if self.hybrid else "")
        return RULES if self.recording is None else "recorded"

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variable that holds the key, where the judge is behind an endpoint."""
        return () if self.profile is None else (self.profile.key_env,)
