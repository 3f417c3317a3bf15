"""What a page holds of all items: the index that it sorts and filters by, and the blocks of texts that it opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from svr_async.evaluation.items import Exchanges
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.reports.item_blocks import BLOCK_ITEMS, blocks_of, packed
from svr_async.reports.item_index import couples_of, index_of

MOST_RUNS = 2
SCRIPTS = ("words", "markdown", "differences", "data", "filters", "table", "opened", "labels", "files", "page")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemPart:
    """All items of a page: packed index and blocks. `first`: the page opens with them, and not with its summary."""

    index: str
    blocks: tuple[str, ...]
    n_items: int
    n_runs: int
    first: bool


def item_part(
    runs: Sequence[Run],
    texts: Mapping[str, Texts],
    *,
    exchanges: Sequence[Exchanges] = (),
    notes: Sequence[str] = (),
    first: bool = False,
) -> ItemPart:
    """Pack the items of a run, or those that two runs share, with the texts that are known of them, by id.

    Items need their reasons (`with_reasons`) to show them. UsageError for two runs that share no item.
    """
    couples = couples_of(runs)
    packs = list(blocks_of(couples, texts, exchanges))
    index = index_of(runs, couples, notes) | {"block": BLOCK_ITEMS, "starts": [start for start, _ in packs]}
    return ItemPart(
        index=packed(index),
        blocks=tuple(block for _, block in packs),
        n_items=len(couples),
        n_runs=len(runs),
        first=first,
    )
