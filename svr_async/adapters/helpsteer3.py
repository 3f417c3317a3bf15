"""HelpSteer3 Preference (arXiv 2505.11475): 38,459 human-ranked pairs for training, ties included."""

from __future__ import annotations

import html

from svr_async.adapters.contract import Adapter, OfficialCounts
from svr_async.adapters.fields import Fields
from svr_async.adapters.records import Parsed, content_id, micro_scores
from svr_async.core.pair import NO_DOMAIN, Message, PreferencePair

READING = "overall_preference: below 0 = response1 is better, above 0 = response2 is better"
TIE = "tie (overall_preference is 0)"
TRAIN_ROWS, VALIDATION_ROWS = 38_459, 2_017


def plain(text: str) -> str:
    """Return a text without HTML entities and outer white space, as the paper's code reads it."""
    return html.unescape(text).strip()


def parse(fields: Fields) -> Parsed:
    """Turn one row into a pair: below 0 response1 is chosen, above 0 response2; 0 is a tie and is left out."""
    context = tuple(Message(turn.role, plain(turn.content)) for turn in fields.prompt("context"))
    prompt = fields.filled(context, "context")
    first, second = plain(fields.text("response1")), plain(fields.text("response2"))
    preference = fields.integer("overall_preference", -3, 3)
    first_is_chosen = preference < 0
    pair = PreferencePair(
        id=content_id(prompt, first, second),
        prompt=prompt,
        chosen=first if first_is_chosen else second,
        rejected=second if first_is_chosen else first,
        domain=fields.optional_text("domain", NO_DOMAIN),
        subset=fields.optional_text("language"),
        chosen_first=first_is_chosen,
        has_preference=preference != 0,
        strength=abs(preference),
    )
    return Parsed(pairs=(pair,)) if preference else Parsed(skipped=(TIE,), tied=pair)


ADAPTER = Adapter(
    name="helpsteer3",
    title="HelpSteer3 Preference",
    licence="CC BY 4.0",
    homepage="https://huggingface.co/datasets/nvidia/HelpSteer3",
    hub_id="nvidia/HelpSteer3",
    hub_files=("preference/train.jsonl.gz", "preference/validation.jsonl.gz"),
    counts=OfficialCounts(rows=(TRAIN_ROWS, VALIDATION_ROWS, TRAIN_ROWS + VALIDATION_ROWS)),
    training=True,
    reading=READING,
    ruled=False,
    schema={
        "domain": "general, stem, code or multilingual",
        "language": "text: natural or programming language",
        "context": "list of {role, content}, ending with the user",
        "response1": "text",
        "response2": "text",
        "overall_preference": "whole number from -3 (response1 much better) to 3 (response2 much better)",
        "individual_preference": "list of {score, reasoning}, not used",
    },
    parse=parse,
    score=micro_scores,
)
