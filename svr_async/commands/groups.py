"""Help in groups: the flags that matter first, the others under a heading of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

Groups = Mapping[str, Sequence[str]]

USUAL: Groups = {
    "How a pair is judged": ("option", "top_k", "rephrase", "order", "audit", "audit_below", "tie_credit"),
    "Several judges": ("jury", "jury_rule", "escalate_to", "escalate_below", "report"),
    "How the bank is learned": (
        "preset", "publish", "author", "pool", "pool_size", "rubrics_per_call", "ablate", "decontaminate",
        "train_limit", "learning_curve", "licence",
    ),
    "Reading the data": ("adapter", "benchmark", "domain", "lenient", "columns", "labels"),
    "The endpoint": (
        "base_url", "concurrency", "rpm", "tpm", "timeout", "give_up_after", "max_calls", "price", "strict_model",
        "prompts", "prefix", "shard", "ray", "cache",
    ),
    "The run": ("offline", "resume", "retry_errors", "min_coverage", "force", "replace", "seed"),
    "Output and settings": ("quiet", "verbose", "as_json", "config"),
    "Watching": ("track", "log_json", "log_level", "metrics_port", "otel"),
}  # fmt: skip


class GroupedCommand(click.Command):
    """A command whose help shows its flags in groups; those that no group names come first, under Options.

    `groups` names the flags of each group by their parameter; a group without a flag of this command is left out.
    """

    def __init__(self, *args: Any, groups: Groups = USUAL, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.groups = groups

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags, group by group."""
        for title, rows in self.sections(ctx):
            with formatter.section(title):
                formatter.write_dl([row for _, row in rows])

    def sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, tuple[str, str]]]]]:
        """Yield each group's title and its flags: (parameter, (how it is written, its help))."""
        flags = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        shown = [(str(one.name), row) for one in flags if (row := one.get_help_record(ctx)) is not None]
        grouped = {name for names in self.groups.values() for name in names}
        yield "Options", [row for row in shown if row[0] not in grouped]
        for title, names in self.groups.items():
            if rows := [row for row in shown if row[0] in names]:
                yield title, rows
