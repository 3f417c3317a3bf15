"""RewardBench 2 (arXiv 2506.01937): one chosen against three rejected, and Ties with several right answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from svr_async.adapters.contract import Adapter, OfficialCounts
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import PairResult, Parsed, accuracy, content_id, drawn_first, mean
from svr_async.adapters.ties import TIES, ties_score
from svr_async.core.pair import PreferencePair

SUBSETS = {"Factuality": 475, "Precise IF": 160, "Math": 183, "Safety": 450, "Focus": 495, TIES: 102}


def parse(fields: Fields) -> Parsed:
    """Turn one prompt into its pairs: each chosen against each rejected; in Ties, also the chosen among themselves.

    `slot` holds the positions of the two in the list of completions, chosen ones first.
    """
    prompt = fields.prompt("prompt")
    chosen, rejected, subset = fields.texts("chosen"), fields.texts("rejected"), fields.text("subset")
    own_id = fields.identifier(("id",))
    given = own_id or content_id(prompt, *chosen, *rejected)
    if subset == TIES and not given.startswith(("ref:", "tied:")):
        raise RowError(fields.row, "column 'id': a Ties item is called ref:<n> or tied:<n>", f", found {given!r}")
    item = f"{subset}/{given}"
    texts = (*chosen, *rejected)
    duels = [(i, j) for i in range(len(chosen)) for j in range(len(chosen), len(texts))]
    equals = list(combinations(range(len(chosen)), 2)) if subset == TIES else []
    pairs = []
    for slot in (*duels, *equals):
        pair_id = f"{item}/{slot[0]}-{slot[1]}"
        pairs.append(
            PreferencePair(
                id=pair_id,
                prompt=prompt,
                chosen=texts[slot[0]],
                rejected=texts[slot[1]],
                domain=subset,
                subset=subset,
                chosen_first=drawn_first(pair_id),
                has_preference=slot[1] >= len(chosen),
                item=item,
                slot=slot,
            )
        )
    return Parsed(pairs=tuple(pairs), id=item if own_id else "", group=subset)


def score(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Non-ties: an item counts only if every one of its pairs is won; Ties: its own formula; overall: plain mean.

    There is no official rule for a pairwise judge: all-pairs-won is the rule of the paper's code, and
    `pair_level` stands beside it. An item scores the least credit of its pairs. `overall_without_ties`
    is the mean that the paper's table uses.
    """
    by_subset: dict[str, list[PairResult]] = defaultdict(list)
    for result in results:
        by_subset[result.pair.subset].append(result)
    ties = ties_score(by_subset.pop(TIES, []))
    items = {name: item_accuracy(part, tie_credit) for name, part in sorted(by_subset.items())}
    pairs = {name: accuracy(part, tie_credit) for name, part in sorted(by_subset.items())}
    subsets = items if ties is None else {**items, TIES: ties["score"]}
    return {
        "overall": mean(list(subsets.values())),
        "overall_without_ties": mean(list(items.values())),
        "subsets": subsets,
        "pair_level": pairs,
        "ties": ties,
        "complete": set(SUBSETS) <= set(subsets),
        "rule": "mean of subsets; an item needs all its pairs won; Ties by the official formula on mean margins",
    }


def item_accuracy(results: Sequence[PairResult], tie_credit: float) -> float:
    """Return the mean over items of the least credit among an item's pairs; 0 of no pairs."""
    least: dict[str, float] = {}
    for result in results:
        least[result.pair.item] = min(least.get(result.pair.item, 1.0), result.credit(tie_credit))
    return mean(list(least.values())) or 0.0


_SCHEMA: Mapping[str, str] = {
    "id": "text; in Ties ref:<n> (one right answer) or tied:<n> (several)",
    "prompt": "text",
    "chosen": "list of texts: one, or in Ties all right answers",
    "rejected": "list of texts: three, or in Ties all wrong answers",
    "num_correct": "whole number, not used",
    "num_incorrect": "whole number, not used",
    "total_completions": "whole number, not used",
    "models": "list of texts, not used",
    "subset": "Factuality, Precise IF, Math, Safety, Focus or Ties",
    "additional_metadata": "object, not used",
}
ADAPTER = Adapter(
    name="rewardbench2",
    title="RewardBench 2",
    label="RewardBench 2",
    spelling=r"reward[-_. ]?bench[-_. ]?2(?!\d)",
    chance="The best of four is guessed right on 25 % of the items; coin flips pair by pair win all three on 12.5 %.",
    shares_prompts=True,
    licence="ODC-BY",
    homepage="https://huggingface.co/datasets/allenai/reward-bench-2",
    hub_id="allenai/reward-bench-2",
    hub_files=("data/test-00000-of-00001.parquet",),
    counts=OfficialCounts(rows=(1865,), groups=SUBSETS),
    schema=_SCHEMA,
    parse=parse,
    score=score,
)
