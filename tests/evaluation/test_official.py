"""A benchmark's own scores: all of those that its authors define, and of others what says anything new."""

from __future__ import annotations

from typing import Any

from svr_async.reports.official import has_official_rule, own_scores

METRICS: dict[str, Any] = {
    "benchmark": "pairs",
    "accuracy": 0.666667,
    "by_domain": {"code": {"accuracy": 0.666667}},
    "official": {"overall": 2 / 3, "by_domain": {"code": 2 / 3}, "by_subset": {}, "rule": "correct / total"},
}


def test_what_only_repeats_the_accuracy_is_no_score_of_its_own() -> None:
    """Equal to six digits is a repetition; a rule without a score beside it is not shown."""
    assert own_scores(METRICS) == {}
    more = METRICS | {"official": METRICS["official"] | {"by_strength": {"3": 0.5}}}
    assert own_scores(more) == {"by_strength": {"3": 0.5}, "rule": "correct / total"}


def test_a_benchmarks_own_scores_are_kept_but_no_table_of_the_domains_again() -> None:
    """Also where a score equals the accuracy, and for the shipped sample; runs of old know of none."""
    for name in ("rubricbench", "rubricbench-sample", "rmb"):
        assert has_official_rule(METRICS | {"benchmark": name})
        assert own_scores(METRICS | {"benchmark": name}) == {"overall": 2 / 3, "rule": "correct / total"}
    assert own_scores({"benchmark": "rubricbench"}) == {}
