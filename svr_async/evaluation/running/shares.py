"""The pairs of a share: of one machine of several, or of one process of several on a machine, by the same rule."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.adapters.pair_shelf import pairs_at
from svr_async.judges.shares import WHOLE, Share, places_of
from svr_async.vocabulary.pair import PreferencePair, prompt_digest


def places_in(pairs: Sequence[PreferencePair], share: Share) -> list[int]:
    """Return the places of the pairs of a share; pairs of one prompt stay together."""
    return places_of(map(prompt_digest, pairs), share)


def pairs_of(pairs: Sequence[PreferencePair], share: Share) -> Sequence[PreferencePair]:
    """Return the pairs of a share, in their order."""
    return pairs if share == WHOLE else pairs_at(pairs, places_in(pairs, share))
