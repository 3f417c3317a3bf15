"""What of the printed numbers follows from others, and what does not: the arithmetic of the paper's tables and text.

Every check is a number of `printed.toml` beside what the others of its table or text give. Two numbers agree where they
are nearer than what rounding can do, which each check states; that they differ is a mark, and no judgement of why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import erfc, fsum, sqrt

from svr_async.core.statistics import mcnemar_exact
from svr_async.reproduction.printed import Printed, PrintedTable

GROUP_SIZES = {"Chat": 422, "IF": 124, "STEM": 250, "Code": 271, "Safety": 80}  # RubricBench's own counts
PAIRS = sum(GROUP_SIZES.values())
TOP_K = 6
HELPSTEER3_TRAIN = 38_459  # rows of HelpSteer3's train split, ties included (its data card)
GROUP_OF = {
    "code": "Code", "MBPP": "Code", "safety": "Safety", "harmlessness": "Safety", "helpful": "Chat",
    "human-preference": "Chat", "general": "Chat", "ifeval": "IF", "precise IF": "IF", "math": "STEM", "stem": "STEM",
    "GPQA": "STEM",
}  # fmt: skip
UNLISTED = {"Chat": 66, "STEM": 5}  # pairs of sources that the table of net advantages does not list


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A printed number beside what other printed numbers give; `within` is how far rounding can take them apart."""

    label: str
    name: str
    printed: float
    follows: float
    within: float
    why: str

    @property
    def agrees(self) -> bool:
        """Whether the two are as near as rounding leaves them."""
        return abs(self.printed - self.follows) <= self.within + 1e-9

    @property
    def printed_words(self) -> str:
        """The printed number for people."""
        return f"{self.printed:,.10g}"

    @property
    def follows_words(self) -> str:
        """What follows, with two decimals where it is no whole number."""
        return f"{self.follows:,.0f}" if float(self.follows).is_integer() else f"{self.follows:,.2f}"


def checks(printed: Printed) -> tuple[Check, ...]:
    """Return every check, table by table."""
    parts = (
        _overall(printed.table("tab:rubricbench")),
        _averages(printed.table("tab:rmbenches")),
        _transfer(printed.table("tab:model_transfer")),
        _ablation(printed.table("tab:ablation")),
        _overlap(printed),
        _net(printed),
        _distribution(printed),
        _gaps(printed),
        _counts(printed),
        _topk(printed),
        _rrd(printed),
    )
    return tuple(check for part in parts for check in part)


def marks(printed: Printed) -> tuple[Check, ...]:
    """Return the checks that do not agree."""
    return tuple(check for check in checks(printed) if not check.agrees)


def micro_accuracy(table: PrintedTable, names: tuple[str, ...]) -> float:
    """Return the accuracy over all pairs, in percent, that the cells of the five domains give."""
    cells = {group: table.number(names, group) or 0.0 for group in GROUP_SIZES}
    return fsum(GROUP_SIZES[group] * cell for group, cell in cells.items()) / PAIRS


def _overall(table: PrintedTable) -> Iterator[Check]:
    for row in table.rows:
        yield Check(
            label=table.label,
            name=f"{' · '.join(row.names)}, overall",
            printed=table.number(row.names, "Overall") or 0.0,
            follows=micro_accuracy(table, row.names),
            within=0.1,
            why="the mean of the domain cells, weighted by the benchmark's counts",
        )


def _averages(table: PrintedTable) -> Iterator[Check]:
    for row in table.rows:
        cells = [table.number(row.names, column) or 0.0 for column in table.columns[:-1]]
        why = "the mean of the 12 columns before it"
        yield _check(table.label, f"{row.names[0]}, average", row.values[-1], fsum(cells) / len(cells), 0.1, why)


def _transfer(table: PrintedTable) -> Iterator[Check]:
    for column in table.columns:
        *judges, average = table.column(column)
        why = "the mean over the five judges"
        yield _check(table.label, f"average of {column}", average, fsum(judges) / len(judges), 0.1, why)


def _ablation(table: PrintedTable) -> Iterator[Check]:
    whole = table.rows[0].values[0]
    for row in table.rows[1:]:
        accuracy, delta = row.values
        why = "accuracy less that of the whole method"
        yield _check(table.label, row.names[0], delta, float(accuracy) - float(whole), 0.05, why)


def _overlap(printed: Printed) -> Iterator[Check]:
    table = printed.table("tab:error_overlap")
    counts = table.column("Count")
    both, svr, oracle, _ = (int(count) for count in counts)
    yield _check(table.label, "all pairs", PAIRS, sum(counts), 0, "the four counts added up")
    for row in table.rows:
        why = "the count over all pairs"
        yield _check(table.label, f"{row.names[0]}, %", row.values[1], 100 * float(row.values[0]) / PAIRS, 0.05, why)
    main, why = printed.table("tab:rubricbench"), "pairs that it has right in the table of the overlap"
    for names, right in ((("SVR (Ours)", "OSS"), both + svr), (("Oracle Rubrics", "OSS"), both + oracle)):
        overall = main.number(names, "Overall") or 0.0
        yield _check(table.label, f"{names[0]}, overall", overall, 100 * right / PAIRS, 0.05, f"{right} {why}")
    disagree = printed.number("sec:analysis_residual", "disagree_percent")
    yield _check(
        table.label, "pairs that differ, %", disagree, 100 * (svr + oracle) / PAIRS, 0.05, "the two middle counts"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """By how many pairs the oracle is ahead of SVR, and McNemar's p-value of that: exact, and of the normal limit."""

    pairs: int
    exact: float
    normal: float


def headline_gap(printed: Printed) -> Gap:
    """Return the gap that the paper's headline is about, out of its table of the overlap."""
    _, svr, oracle, _ = (int(count) for count in printed.table("tab:error_overlap").column("Count"))
    normal = erfc(abs(oracle - svr) / sqrt(2 * (svr + oracle)))
    return Gap(pairs=oracle - svr, exact=mcnemar_exact(svr, oracle), normal=normal)


def _net(printed: Printed) -> Iterator[Check]:
    table, main = printed.table("tab:domain_net_advantage"), printed.table("tab:rubricbench")
    ahead = headline_gap(printed).pairs
    yield _check(table.label, "all sources", -ahead, sum(table.column("Net")), 0, "the net counts added up")
    code = printed.number("app:residual", "code_deficit")
    listed = table.number(("code",), "Net") or 0.0
    yield _check(table.label, "deficit on code, in the text", code, listed, 0, "the table's row")
    for group, size in GROUP_SIZES.items():
        net = sum(table.number((name,), "Net") or 0.0 for name, held in GROUP_OF.items() if held == group)
        cells = [main.number(names, group) or 0.0 for names in (("SVR (Ours)", "OSS"), ("Oracle Rubrics", "OSS"))]
        why = f"the two cells of {group} in tab:rubricbench, as pairs"
        room = 0.1 * size / 100 + UNLISTED.get(group, 0)
        yield _check(table.label, f"net on {group}", net, size * (cells[0] - cells[1]) / 100, room, why)


def _distribution(printed: Printed) -> Iterator[Check]:
    table = printed.table("tab:bank_distribution")
    for column in table.columns:
        *parts, total = table.column(column)
        room = 0.3 if column == "%" else 0
        yield _check(table.label, f"total of {column}", total, fsum(parts), room, "the rows added up")
    rubrics = table.number(("Total",), "Count") or 0.0
    for row in table.rows:
        count, share, *severities = (float(value) for value in row.values[:5])
        why = "the count over all rubrics"
        yield _check(table.label, f"{row.names[0]}, %", share, 100 * count / rubrics, 0.06, why)
        yield _check(table.label, f"{row.names[0]}, count", count, sum(severities), 0, "its severities added up")
    activations, most = table.number(("Total",), "Activations") or 0.0, PAIRS * TOP_K
    why = f"at most {TOP_K} rubrics a pair are active on {PAIRS:,} pairs"
    yield _check(table.label, "activations", activations, min(activations, most), 0, why)
    yield from _bank_text(printed, table)


def _bank_text(printed: Printed, table: PrintedTable) -> Iterator[Check]:
    text = {name: printed.number("app:bank", name) for name in ("rubrics", "stem_and_safety_percent")}
    yield _check("app:bank", "rubrics", text["rubrics"], sum(table.column("Count")[:-1]), 0, "the table's counts")
    small = (table.number(("STEM",), "%") or 0.0) + (table.number(("Safety",), "%") or 0.0)
    yield _check("app:bank", "STEM and Safety, %", text["stem_and_safety_percent"], small, 0.05, "the table's shares")
    each = printed.number("app:bank", "safety_activations") / printed.number("app:bank", "safety_rubrics")
    printed_each = printed.number("app:bank", "safety_activations_each")
    yield _check("app:bank", "activations of a Safety rubric", printed_each, each, 1, "activations over rubrics")
    critical = printed.number("app:bank", "stem_critical") / printed.number("app:bank", "stem_rubrics")
    yield _check(
        "app:bank", "critical of STEM, %", printed.number("app:bank", "stem_critical_percent"), 100 * critical, 0.5,
        "critical over all",
    )  # fmt: skip
    near = printed.number("fig:training_dynamics", "bank_near")
    yield _check("fig:training_dynamics", "size of the bank", near, text["rubrics"], 0, "the rubrics of app:bank")


def _gaps(printed: Printed) -> Iterator[Check]:
    main, benches = printed.table("tab:rubricbench"), printed.table("tab:rmbenches")

    def overall(method: str, model: str = "OSS") -> float:
        return main.number((method, model), "Overall") or 0.0

    svr, oracle, own = overall("SVR (Ours)"), overall("Oracle Rubrics"), overall("Self-Generated Rubrics")
    direct = overall("Direct pairwise judge", "GPT-5.4")
    exp, why = "sec:exp", "the difference of two cells"
    yield _check(exp, "gap before", printed.number(exp, "gap_before"), oracle - own, 0.05, why)
    yield _check(exp, "gap after", printed.number(exp, "gap_after"), oracle - svr, 0.05, why)
    yield _check(exp, "over self-generated", printed.number(exp, "over_self"), svr - own, 0.05, why)
    more = printed.number(exp, "over_direct_more_than")
    yield _check(exp, "over the best direct judge, more than", more, min(more, svr - direct), 0, why)
    cells = [benches.number((name,), "Precise IF") or 0.0 for name in ("SVR (ours)", "Skywork")]
    over = printed.number(exp, "over_skywork_precise_if")
    yield _check(exp, "over Skywork on Precise IF", over, cells[0] - cells[1], 0.05, why)
    yield from _tiers(printed, benches)
    best = max(direct, own, overall("Scalar RM", "Skywork"))
    below = printed.number("fig:gap", "below")
    yield _check("fig:gap", "all others below", below, max(below, best), 0, "the best of them in tab:rubricbench")


def _tiers(printed: Printed, benches: PrintedTable) -> Iterator[Check]:
    behind = [
        (benches.number(("Skywork",), tier) or 0.0) - (benches.number(("SVR (ours)",), tier) or 0.0)
        for tier in ("Easy", "Normal", "Hard")
    ]
    within = printed.number("sec:exp", "within_skywork_rmbench")
    yield _check("sec:exp", "behind Skywork on RM-Bench, at most", within, max(behind), 0.05, "the three levels")
    label = "sec:analysis_models"
    names = ("svr_average", "vanilla_average", "self_average", "over_both_more_than")
    svr, vanilla, own, more = (printed.number(label, name) for name in names)
    least = svr - max(vanilla, own)
    yield _check(label, "over both baselines, more than", more, min(more, least), 0, "the difference of the averages")


def _counts(printed: Printed) -> Iterator[Check]:
    label = "sec:exp"
    triples, examples = printed.number(label, "triples"), printed.number(label, "examples")
    removed = printed.number(label, "removed_percent")
    why = "examples that are left over all triples"
    yield _check(label, "removed, %", removed, 100 * (triples - examples) / triples, 0.005, why)
    yield _check(
        label, "triples", triples, min(triples, HELPSTEER3_TRAIN - 1), 0,
        "the split has as many rows with ties, which are no triples: there must be fewer",
    )  # fmt: skip
    sources = ("subjective", "ceiling", "label_noise")
    parts = [printed.number("app:residual", name) for name in sources]
    both_wrong = printed.number("app:residual", "both_wrong")
    yield _check("app:residual", "missed by both", both_wrong, sum(parts), 0, "its three sources added up")
    share = printed.number("app:residual", "subjective_percent")
    yield _check(
        "app:residual", "subjective, %", share, 100 * parts[0] / both_wrong, 0.5, "of the pairs missed by both"
    )
    points = printed.number("app:residual", "label_noise_points")
    noise = 100 * parts[2] / PAIRS
    yield _check("app:residual", "points of label noise", points, noise, 0.05, f"{parts[2]:.0f} of {PAIRS:,} pairs")
    parameters = 4096 * 256 + 256 + 256 * 1024 + 1024 + 1024
    most = printed.number("app:cost", "parameters_millions")
    why = "two layers over 4,096 features and 1,024 rubrics, and a weight each"
    yield _check("app:cost", "parameters, million at most", most, max(most, parameters / 1e6), 0, why)


def _topk(printed: Printed) -> Iterator[Check]:
    label = "fig:topk_sensitivity"
    low, high = printed.number(label, "lowest"), printed.number(label, "highest")
    yield _check(label, "width of the band", printed.number(label, "band"), high - low, 0.005, "its two ends")
    for name in ("at_1", "at_6", "at_8", "at_12"):
        value = printed.number(label, name)
        nearest = 100 * round(value * PAIRS / 100) / PAIRS
        yield _check(label, name.replace("at_", "k = "), value, nearest, 0.006, f"the nearest count of {PAIRS:,} pairs")


def _rrd(printed: Printed) -> Iterator[Check]:
    label = "app:rrd_repro"
    number = {name: printed.number(label, name) for name in ("generations", "samples", "judgments", "accuracy")}
    generations = number["samples"] * PAIRS
    yield _check(label, "generations", number["generations"], generations, 0, f"8 samples for {PAIRS:,} prompts")
    whole = number["samples"] * round(number["judgments"] / number["samples"])
    yield _check(label, "judgments", number["judgments"], whole, 0, "whole rubrics, each judged on 8 samples")
    overall = printed.table("tab:rubricbench").number(("RRD", "OSS"), "Overall") or 0.0
    yield _check("tab:rubricbench", "RRD, overall", overall, number["accuracy"], 0.05, "the appendix's accuracy")


def _check(label: str, name: str, printed: float | str, follows: float, within: float, why: str) -> Check:
    return Check(label=label, name=name, printed=float(printed), follows=follows, within=within, why=why)
