"""Splitting pairs by their prompts: all pairs of a prompt fall on the same side, whatever their order or number."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.vocabulary.pair import PreferencePair, hashed_fraction, prompt_text


def in_share(pair: PreferencePair, share: float, *, salt: str) -> bool:
    """Whether a hash of the pair's prompt falls into the first `share` (a fraction of 1)."""
    return hashed_fraction("split", salt, prompt_text(pair.prompt)) < share


def split_by_prompt(
    pairs: Sequence[PreferencePair], share: float, *, salt: str
) -> tuple[list[PreferencePair], list[PreferencePair]]:
    """Return (the rest, the share): about `share` of the prompts, with all their pairs, in the second list."""
    inside = [in_share(pair, share, salt=salt) for pair in pairs]
    rest = [pair for pair, taken in zip(pairs, inside, strict=True) if not taken]
    return rest, [pair for pair, taken in zip(pairs, inside, strict=True) if taken]
