"""The report says what it must, is one safe file, and survives runs that know little about themselves."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hostile_run import ATTACK, HARMLESS, armed_run
from made_run import made_items, write_run

from svr_async.errors import UsageError
from svr_async.evaluation.run_folder import RunFolder
from svr_async.reports.report import render_report, template_text
from svr_async.reports.reportview import calibration


class Page(HTMLParser):
    """Collects the tags, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.classes: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag and keep its attributes."""
        self.tags[tag] += 1
        self.attributes += attrs
        self.classes.update((dict(attrs).get("class") or "").split())

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.words.append(data)

    @property
    def text(self) -> str:
        """All text with blanks joined."""
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a run folder."""
    return write_run(tmp_path / "run")


def page_of(*folders: Path) -> Page:
    """Render run folders and parse the page."""
    return Page(render_report([RunFolder.load(folder) for folder in folders]))


def test_the_headline_has_its_denominator_and_interval(folder: Path) -> None:
    """Strict accuracy, its interval, n, coverage, half credit and bounds are on the page."""
    metrics = RunFolder.load(folder).metrics
    text = page_of(folder).text

    low, high = metrics["accuracy_ci95"]
    assert f"Strict accuracy {100 * metrics['accuracy']:.1f} %" in text
    assert f"{100 * low:.1f}–{100 * high:.1f} % , n = 320" in text
    for key in ("coverage", "accuracy_half_credit", "accuracy_scored"):
        assert f"{100 * metrics[key]:.1f} %" in text


def test_every_part_is_there(folder: Path) -> None:
    """Domains, official scores, outcomes, order, calibration, mistakes, cost and provenance have their sections."""
    text = page_of(folder).text

    for words in (
        "Accuracy by domain", "Instruction following", "Official scores", "What became of every pair", "parse error",
        "Flip rate 9.4 %", "Confidence and accuracy", "The most confident mistakes", "right answer", "judge’s choice",
        "Prompt tokens", "$0.23", "svr-eval rubricbench --judge gpt-oss-120b", "sha256:1c9b7e20", "blake2b:5f0e",
        "5 January 2026, 10:22 UTC", "3 min 35 s",
    ):  # fmt: skip
        assert words in text, words


def test_twenty_mistakes_with_texts_verdicts_and_contributions(folder: Path) -> None:
    """Each mistake opens to its prompt, both responses and its rubrics with signed contributions."""
    page = page_of(folder)

    assert page.classes["mistake"] == 20
    assert page.text.count("My sourdough starter") == 20
    assert "Keeps every number of the prompt and adds none of its own" in page.text
    assert re.search(r"[+−]0\.\d\d", page.text)


@pytest.mark.parametrize(
    ("metrics", "manifest", "words"),
    [
        ({"complete": False, "n_total": 1147}, {}, "PARTIAL The run did not finish"),
        ({"judge_label": "x (SIMULATED endpoint)"}, {}, "SIMULATED Replies come from a simulated endpoint"),
        ({"judge_label": "rules (offline checks, no model)"}, {}, "OFFLINE RULES Offline checks decided"),
        ({}, {"sample": True}, "SAMPLE DATA"),
    ],
)
def test_marks_stand_at_the_top_and_in_captions(
    tmp_path: Path, metrics: dict[str, int | str], manifest: dict[str, bool], words: str
) -> None:
    """A caveat comes before the first number, in the title, and with every table."""
    html = render_report([RunFolder.load(write_run(tmp_path, metrics=metrics, manifest=manifest))])
    page = Page(html)

    mark = words.split(" The", maxsplit=1)[0].split(" Replies", maxsplit=1)[0].split(" Offline", maxsplit=1)[0]
    assert words in page.text
    assert page.text.index(words) < page.text.index("Strict accuracy")
    title = re.search(r"<title>(.*?)</title>", html)
    assert title is not None
    assert f"[{mark}]" in title[1]
    assert len(re.findall(rf"<caption[^>]*>[^<]*\[{mark}\]", html)) >= 3


def test_the_page_is_one_file_that_may_load_and_run_nothing(folder: Path) -> None:
    """No script, no reference outside the page, and a policy that allows the one style sheet by its hash."""
    html = render_report([RunFolder.load(folder)])
    page = Page(html)

    found = re.search(r"<style>(.*?)</style>", html, re.DOTALL)
    assert found is not None
    style = found[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src &#39;none&#39;; style-src &#39;sha256-{digest}&#39;" in html
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & set(page.tags)
    assert not [value for name, value in page.attributes if name in {"src", "style"} or name.startswith("on")]
    assert all(value is not None and value.startswith("#") for name, value in page.attributes if name == "href")
    assert "url(" not in style
    assert "@import" not in style


def test_hostile_texts_add_no_element_and_no_attribute(tmp_path: Path) -> None:
    """Attacks in every field give the same elements and attribute names as harmless words in their place."""
    runs = [armed_run(tmp_path / name, text) for name, text in (("bad", ATTACK), ("good", HARMLESS))]
    bad, good = (Page(render_report([run])) for run in runs)

    assert bad.tags == good.tags
    assert Counter(name for name, _ in bad.attributes) == Counter(name for name, _ in good.attributes)
    assert "window.pwned=1" in bad.text
    assert "⟨U+202E⟩gnp.exe" in bad.text
    assert not {"\u202e", "\u2066", "\x1b", "\x00", "\u200b"} & set(bad.text)


def test_hostile_texts_are_inert_in_comparisons_too(tmp_path: Path) -> None:
    """The same holds where runs are compared."""
    runs = [
        [armed_run(tmp_path / f"{n}{i}", text) for i in (1, 2)] for n, text in (("bad", ATTACK), ("good", HARMLESS))
    ]
    bad, good = (Page(render_report(pair)) for pair in runs)

    assert bad.tags == good.tags


def test_template_syntax_in_texts_is_text(tmp_path: Path) -> None:
    """A response that looks like a template is shown, never evaluated."""
    run = RunFolder.load(write_run(tmp_path, texts=("{{ 7*7 }}", "{% for x in y %}", "{{ self }}")))

    text = Page(render_report([run])).text
    assert "{{ 7*7 }}" in text
    assert "{% for x in y %}" in text


def test_long_texts_are_capped_and_say_so(tmp_path: Path) -> None:
    """Beyond the cap a text ends with how much is left out."""
    run = RunFolder.load(write_run(tmp_path, texts=("p" * 9_000, "a" * 9_000, "short")))
    text = Page(render_report([run])).text

    assert text.count("… 5,000 more characters") == 20
    assert text.count("… 3,000 more characters") == 20


def test_the_same_run_gives_the_same_bytes(folder: Path) -> None:
    """No clock, no random name: rendering twice is byte for byte the same."""
    assert render_report([RunFolder.load(folder)]) == render_report([RunFolder.load(folder)])


def test_a_run_that_knows_little_still_has_a_report(tmp_path: Path) -> None:
    """Only the required keys: unknown numbers are dashes, absent parts are left out, nothing is NaN or None."""
    write_run(tmp_path, texts=None)
    (tmp_path / "items.jsonl").write_bytes(b"")
    bare = {"benchmark": "pairs", "method": "vanilla", "judge": "j", "n_total": 0, "n_scored": 0}
    (tmp_path / "metrics.json").write_bytes(orjson.dumps(bare))
    (tmp_path / "manifest.json").write_bytes(b"{}")
    text = page_of(tmp_path).text

    assert "Preference pairs" in text
    assert "Strict accuracy –" in text
    assert "No pair was decided for the wrong response" in text
    assert "Accuracy by domain" not in text
    assert not re.search(r"\b(None|nan|NaN|null|inf)\b", text)


def test_a_direct_judge_has_no_rubrics_and_no_calibration(tmp_path: Path) -> None:
    """Verdicts without rubrics say so; margins of one size make no calibration figure."""
    items = [
        replace(item, rubrics=(), margin=None if item.margin is None else 1.0 if item.predicted == "A" else -1.0)
        for item in made_items()
        if item.predicted
    ]
    text = page_of(write_run(tmp_path, items=items)).text

    assert text.count("gave its verdict directly") == 20
    assert "Confidence and accuracy" not in text


@pytest.mark.parametrize(
    ("interval", "bounds", "words"),
    [
        ([0.7, 0.8], [0.75, 0.75], "better than a coin flip"),
        ([0.4, 0.6], [0.5, 0.5], "not told apart from a coin flip"),
        ([0.1, 0.2], [0.15, 0.9], "with ties and missing verdicts counted as wrong"),
        ([0.1, 0.2], [0.15, 0.2], "worse than a coin flip"),
    ],
)
def test_the_headline_is_read_out_fairly(
    tmp_path: Path, interval: list[float], bounds: list[float], words: str
) -> None:
    """One sentence says what the interval means; many ties are not called bad judgement."""
    metrics = {"accuracy_ci95": interval, "accuracy_bounds": bounds}

    assert words in page_of(write_run(tmp_path, metrics=metrics)).text


def test_mistakes_of_one_margin_are_not_ranked(tmp_path: Path) -> None:
    """A judge that is asked directly has margins of one size: no mistake is called more confident than another."""
    items = [replace(one, margin=(one.margin > 0) - (one.margin < 0), rubrics=()) for one in made_items() if one.margin]
    text = page_of(write_run(tmp_path, items=items)).text
    assert "The most confident mistakes" not in text
    assert "all with the same margin" in text


def test_missing_texts_point_to_the_command_that_finds_them(tmp_path: Path) -> None:
    """Without examples.jsonl the rubrics are shown and the texts are explained away."""
    assert "keeps no texts of this pair" in page_of(write_run(tmp_path, texts=None)).text


def test_official_scores_are_worded_by_their_kind(tmp_path: Path) -> None:
    """Fractions are percentages, whole numbers counts, the rule a sentence, matrices rows, flags left out."""
    official = {
        "overall": 0.8,
        "by_group": {"CHAT": 0.75, "empty": None},
        "prompts": 1327,
        "matrices": {"chat": [[0.5, 0.25], [1.0, None]]},
        "complete": False,
        "rule": "mean of four sections",
    }
    text = page_of(write_run(tmp_path, metrics={"official": official})).text

    assert "Mean of four sections. Parts of the benchmark are missing." in text
    for words in (
        "Overall 80.0 %",
        "By group Value CHAT 75.0 % empty –",
        "Prompts 1,327",
        "50.0 % 25.0 %",
        "100.0 % –",
    ):
        assert words in text
    assert "False" not in text


def test_several_runs_are_compared_first(tmp_path: Path) -> None:
    """With several runs the page opens with the comparison and holds every run, with ids of its own."""
    folders = [
        write_run(tmp_path / "a", items=made_items(seed=1, skill=0.55), metrics={"method": "vanilla"}),
        write_run(tmp_path / "b", items=made_items(seed=2, skill=0.75), metrics={"complete": False}),
    ]
    page = page_of(*folders)
    ids = [value for name, value in page.attributes if name == "id"]
    links = [value[1:] for name, value in page.attributes if name == "href" and value is not None]

    assert "is better by" in page.text
    assert page.text.index("McNemar p") < page.text.index("Strict accuracy")
    assert "is PARTIAL: it did not finish" in page.text
    assert len(ids) == len(set(ids))
    assert set(links) <= set(ids)
    assert page.classes["mistake"] == 40


def test_runs_that_share_nothing_are_shown_side_by_side(tmp_path: Path) -> None:
    """Runs of different benchmarks make a page without a test."""
    items = made_items()
    other = [replace(item, id=f"x{item.id}") for item in items]
    page = page_of(
        write_run(tmp_path / "a", items=items),
        write_run(tmp_path / "b", items=other, metrics={"benchmark": "rmbench"}),
    )

    assert "RubricBench, RM-Bench" in page.text
    assert "shares no pair" in page.text
    assert "McNemar p" not in page.text


def test_every_label_refers_to_something(folder: Path) -> None:
    """Each `aria-labelledby` names an id of the page, headings do not skip a level, and tables have captions."""
    html = render_report([RunFolder.load(folder)])
    page = Page(html)
    ids = {value for name, value in page.attributes if name == "id"}

    assert all(value in ids for name, value in page.attributes if name == "aria-labelledby")
    assert page.tags["h1"] == 1
    assert page.tags["h2"] >= 8
    assert page.tags["table"] == page.tags["caption"]


def test_no_run_makes_no_report() -> None:
    """A report of nothing is refused."""
    with pytest.raises(UsageError, match="at least one run"):
        render_report([])


def test_calibration_groups_are_of_equal_size_and_rising() -> None:
    """Five groups by |margin|, every item with a verdict and a right answer in exactly one."""
    items = made_items()
    bins = calibration(items)

    assert len(bins) == 5
    assert sum(b.n for b in bins) == sum(item.margin is not None for item in items)
    assert all(lower.high <= upper.low for lower, upper in pairwise(bins))
    assert all(b.ci95[0] <= b.accuracy <= b.ci95[1] for b in bins)
    assert bins[-1].accuracy > bins[0].accuracy


def test_own_pairs_have_no_official_scores(tmp_path: Path) -> None:
    """Where nobody has said how data is to be scored, what repeats accuracy and domains is left out."""
    same = {"accuracy": 0.75, "by_domain": {"code": {"n": 4, "accuracy": 0.75, "ci95": [0.3, 0.9]}}}
    official = {"overall": 0.75, "by_domain": {"code": 0.75}, "by_subset": {}, "rule": "correct / total"}
    metrics = {"benchmark": "pairs", **same, "official": official}
    assert "Official scores" not in page_of(write_run(tmp_path / "same", metrics=metrics)).text
    more = {**metrics, "official": {**official, "by_subset": {"held out": 0.5}}}
    page = page_of(write_run(tmp_path / "more", metrics=more))
    assert "Other scores" in page.text
    assert "By subset Value held out 50.0 %" in page.text
    assert "Overall" not in page.text


def test_official_scores_of_a_partial_run_say_what_they_count(tmp_path: Path) -> None:
    """They are over all pairs of the data, so those that are not judged yet count as wrong."""
    told = "Pairs that are not judged yet count as wrong here."
    assert told in page_of(write_run(tmp_path / "part", metrics={"complete": False})).text
    assert told not in page_of(write_run(tmp_path / "whole")).text


def test_a_command_is_broken_between_its_arguments_only(tmp_path: Path) -> None:
    """Each argument, and each id or digest, is a box of its own, which a line takes as a whole where it can."""
    command = ["svr-eval", "pairs", "--data", "my pairs.jsonl"]
    html = render_report([RunFolder.load(write_run(tmp_path, manifest={"command": command}))])
    boxes = [f'<span class="whole">{word}</span>' for word in (*command[:3], "&#39;my pairs.jsonl&#39;")]
    assert f"<code>{' '.join(boxes)}</code>" in html


def test_verdicts_that_are_equal_and_count_are_explained(folder: Path) -> None:
    """The page says why a rubric counts that both responses pass."""
    assert "the response that comes nearer counts a quarter" in page_of(folder).text


def test_the_rubrics_that_decide_have_their_section(folder: Path) -> None:
    """Each shared rubric with uses, share right, pairs saved, errors and net effect, and the same by domain."""
    page = page_of(folder)

    assert "The rubrics that decide" in page.text
    assert page.classes["by-group"] == 6
    assert re.search(r"Instruction following net [+−]?\d+ \(\d+ saved, \d+ errors?\)", page.text)
    assert "errors caused" in page.text


def test_subsets_have_pairs_and_intervals_and_fold_away(tmp_path: Path) -> None:
    """Where they are not the domains again; a table of scores that repeats either is shown once."""
    items = [replace(item, subset=f"part-{place % 3}") for place, item in enumerate(made_items())]
    plain = page_of(write_run(tmp_path / "plain"))
    page = page_of(write_run(tmp_path / "parted", items=items))

    assert "By subset (3)" in page.text
    assert re.search(r"part-1 107 \d+\.\d % \d+\.\d–\d+\.\d %", page.text)
    assert "By subset" not in plain.text
    assert "Per domain" not in plain.text
    assert plain.text.count("Instruction following 35") == 1


def test_a_comparison_lists_its_disagreements_lost_ones_first(tmp_path: Path) -> None:
    """Pairs that only the first run has right come before those that only the second has; the rest is folded up."""
    runs = [
        write_run(tmp_path / "a", items=made_items(seed=1, skill=0.55), metrics={"method": "vanilla"}),
        write_run(tmp_path / "b", items=made_items(seed=2, skill=0.75)),
    ]
    page = page_of(*runs)

    assert page.text.index("Lost: 10 of ") < page.text.index("Won: 10 of ")
    assert "Where they differ" in page.text
    assert page.classes["is-right"] == page.classes["is-wrong"] > 20


@pytest.mark.parametrize("scheme", [0, 1])
def test_one_colour_means_one_thing(scheme: int) -> None:
    """By day and by night the colours of measured numbers, A, B, right, wrong and cautions all differ."""
    blocks = re.findall(r":root \{(.*?)\}", template_text("report.css"), re.DOTALL)
    colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[scheme]))
    meant = [colours[name] for name in ("accent", "a", "b", "good", "bad", "warn-edge")]

    assert len(set(meant)) == len(meant)
