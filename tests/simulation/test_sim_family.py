"""The family of drawn worlds: a number decides everything, and everything written can be read back."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from itertools import product
from statistics import mean

import pytest

from svr_async.core.pair import prompt_text
from svr_async.errors import ConfigError
from svr_async.simulation.author import Author
from svr_async.simulation.calibration import calibrate
from svr_async.simulation.draws import draw_bytes
from svr_async.simulation.family import DEVELOPMENT, HARDLY_TOLD, REPORT, DrawnConfig, drawn
from svr_async.simulation.family_words import FACETS, FamilyLanguage, made_up_words
from svr_async.simulation.family_world import STRAY, FamilyWorld
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.language import HEADS
from svr_async.simulation.models import MODELS
from svr_async.simulation.readings import REPHRASED

MODEL = MODELS["gpt-oss-120b"]
MANY = [drawn(number) for number in range(100, 400)]  # neither development nor report draws
REPEATS, TEMPLATES, HARD, PARAPHRASES, STYLED = 101, 104, 113, 122, 118  # draws with these properties
SAMPLE = (REPEATS, TEMPLATES, HARD, PARAPHRASES, STYLED)
WORLDS = {number: FamilyWorld(drawn(number)) for number in SAMPLE}
KNOWN = "827cd5d56c7382e4"  # of draws 0 to 5, on which defaults were chosen
PROPERTIES = {
    "types": {1, 2, 4, 6, 8, 12, 16, 20, 30, 40},
    "told": {0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0},
    "faults": {0.0, 0.25, 0.5},
    "weight_ratio": {0.5, 0.6, 0.7, 0.8, 0.9, 1.0},
    "even": {False, True},
    "asides": {False, True},
    "texts": {"template", "paraphrase", "repeat"},
    "wordings": {1, 2, 3, 4, 5},
    "shared_errors": {0.0, 0.5, 1.0},
    "style": {0.0, 0.1, 0.2},
}
RANGES = {
    "own": (0, 8),
    "common": (0, 14),
    "common_share": (0.0, 1.0),
    "matter": (0.1, 1.0),
    "noise": (0.0, 0.25),
    "position_bias": (0.0, 0.3),
    "label_noise": (0.0, 0.2),
    "human_keep": (0.5, 1.0),
    "min_margin": (0.03, 0.15),
    "pairs": (300, 10_000),
}
every_world = pytest.mark.parametrize("world", WORLDS.values(), ids=[f"draw {number}" for number in WORLDS])


def half_of(world: FamilyWorld) -> int:
    """Return how many attributes a world has; the n-th to avoid is that many further on."""
    return world.language.n_criteria // 2


def test_known_draws_are_what_they_were() -> None:
    """Types, pairs, rubrics, proposals, probes and verdicts of draws 0 to 5 are those that runs were made on."""
    sha = hashlib.sha256()
    for number in range(6):
        world = FamilyWorld(drawn(number))
        author, judge = Author(world, MODEL), PlantedJudge(world, world.model(MODEL))
        read = world.language
        sha.update(repr((world.config, world.kinds)).encode())
        for item in (*world.pairs(12), *world.pairs(6, "test")):
            prompt, chosen, rejected = prompt_text(item.pair.prompt), item.pair.chosen, item.pair.rejected
            probe = author.probe(prompt, chosen)
            rows = [row for other in (rejected, None, probe) for row in author.induce(prompt, chosen, other)]
            seen = read.read_prompt(prompt), read.read_response(chosen), read.read_response(rejected)
            judged = [judge.compare(*seen, read.read_rubric(row["rubric"])) for row in rows]
            told = world.human_rubrics(item), world.knowable(prompt), judge.prefer(*seen)
            shown = repr((item, probe, rows, judged, told))
            for later in (", source=''", ", chances=None", ", points=()"):  # later fields, empty
                shown = shown.replace(later, "")
            sha.update(shown.encode())
    assert sha.hexdigest()[:16] == KNOWN


def test_the_same_number_gives_the_same_world() -> None:
    """Two worlds of one number have the same types and pairs, and a pair does not depend on those before it."""
    again = FamilyWorld(drawn(HARD))
    random.seed(17)
    assert again.kinds == WORLDS[HARD].kinds
    assert list(again.pairs(30)) == list(WORLDS[HARD].pairs(30))
    assert again.pair("train", 29) == list(WORLDS[HARD].pairs(30))[29]


def test_another_number_gives_another_world() -> None:
    """No two of many draws have the same properties, and the words of two worlds are not the same."""
    assert len({repr(config.properties() | {"draw": 0}) for config in MANY}) == len(MANY)
    first, second = (set(WORLDS[number].words) for number in (TEMPLATES, HARD))
    assert len(first & second) < 0.1 * len(first)


@pytest.mark.parametrize("name", PROPERTIES)
def test_listed_properties_take_every_listed_value(name: str) -> None:
    """Each property that is drawn from a list takes all of its values, and no other, over many draws."""
    assert {getattr(config, name) for config in MANY} == PROPERTIES[name]


@pytest.mark.parametrize("name", RANGES)
def test_other_properties_fill_their_ranges(name: str) -> None:
    """Each other property stays within its range, and comes near both ends over many draws."""
    low, high = RANGES[name]
    found = [getattr(config, name) for config in MANY]
    assert low <= min(found) < low + 0.1 * (high - low)
    assert high >= max(found) > high - 0.1 * (high - low)


def test_repeats_have_one_wording_and_other_texts_several() -> None:
    """Rubric texts that repeat have one wording a criterion, templates and paraphrases two to five."""
    assert {config.wordings for config in MANY if config.texts == "repeat"} == {1}
    assert {config.wordings for config in MANY if config.texts != "repeat"} == {2, 3, 4, 5}


def test_development_and_report_draws_are_apart() -> None:
    """No draw is for choosing and for reporting."""
    assert not set(DEVELOPMENT) & set(REPORT)
    assert (len(DEVELOPMENT), len(REPORT)) == (40, 40)


def test_what_words_do_not_tell_is_common() -> None:
    """Where words tell nothing all criteria are common; where they tell little, all the weight but that little is."""
    assert {config.common_share for config in MANY if config.told == 0 or config.types == 1} == {1.0}
    for config in MANY:
        assert config.common_share >= 1 - config.told or config.told >= HARDLY_TOLD
        assert bool(config.common) == (config.common_share > 0)
        assert bool(config.own) == (config.common_share < 1)


@pytest.mark.parametrize("config", MANY[:40], ids=lambda config: f"draw {config.draw}")
def test_weights_add_up_and_the_common_ones_to_their_share(config: DrawnConfig) -> None:
    """A type's weights are positive and sum to 1; the criteria of all types hold the drawn share of it."""
    kinds = FamilyWorld(config).kinds
    assert len(kinds) == config.types
    for kind in kinds:
        assert kind.total == pytest.approx(1)
        assert min(kind.weights) > 0
        assert kind.cares[: config.common] == tuple(range(config.common))
        assert sum(kind.weights[: config.common]) == pytest.approx(config.common_share)
        assert len(set(kind.cares)) == config.common + config.own
        assert not set(kind.cares) & set(kind.distractors)


def test_a_fault_is_another_types_best() -> None:
    """Where there are faults, about the drawn share of types avoids an attribute; where there are none, none does."""
    for config in MANY[:40]:
        world = FamilyWorld(config)
        avoiding = [sum(one >= half_of(world) for one in kind.cares) for kind in world.kinds]
        assert set(avoiding) <= {0, 1}
        assert bool(config.faults) or not any(avoiding)
    world = WORLDS[PARAPHRASES]  # 30 types
    assert 0.3 < mean(any(one >= half_of(world) for one in kind.cares) for kind in world.kinds) < 0.7


@every_world
def test_the_type_of_every_prompt_is_read_back(world: FamilyWorld) -> None:
    """The reference in a prompt tells its type, asked for or drawn; text without a reference has none."""
    for item in world.pairs(80):
        assert world.language.read_prompt(prompt_text(item.pair.prompt)).kind == item.kind
    wanted = [number % len(world.kinds) for number in range(20)]
    assert [item.kind for item in world.pairs(20, "test", wanted)] == wanted
    assert world.language.read_prompt("What is the capital of France?").kind is None
    assert world.kind_of(world.language.read_prompt("What is the capital of France?")) is None


def test_another_draw_reads_another_type() -> None:
    """The reference says nothing to another world: there its types come out as by chance."""
    ours, theirs = WORLDS[TEMPLATES], FamilyWorld(DrawnConfig(draw=1_000_000, types=30))
    same = [theirs.language.read_prompt(prompt_text(item.pair.prompt)).kind == item.kind for item in ours.pairs(300)]
    assert mean(same) < 0.1


def test_even_types_are_equally_frequent_and_others_are_not() -> None:
    """Types come in equal shares, or the n-th 1/n as often as the first."""
    for even in (True, False):
        world = FamilyWorld(DrawnConfig(draw=1, types=4, even=even))
        found = [item.kind for item in world.pairs(1200)]
        rates = [1.0 if even else 1 / (number + 1) for number in range(4)]
        for number, rate in enumerate(rates):
            assert found.count(number) / 1200 == pytest.approx(rate / sum(rates), abs=0.05)


@pytest.mark.parametrize("told", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("asides", [False, True])
def test_words_tell_the_type_as_often_as_drawn(told: float, asides: bool) -> None:
    """Words of types fill the drawn share of the places that they could fill, and nearly all are of the right type."""

    def typed(share: float) -> list[bool]:
        world = FamilyWorld(DrawnConfig(draw=3, told=share, asides=asides))
        found = []
        for item in world.pairs(400):
            words = [word.strip(".,?!:;") for word in prompt_text(item.pair.prompt).split()]
            found += [world.words[word] == item.kind for word in words if word in world.words]
        return found

    every, some = typed(1.0), typed(told)
    assert len(every) > 400
    assert len(some) / len(every) == pytest.approx(told, abs=0.05)
    assert mean(every) == pytest.approx(1 - STRAY, abs=0.04)
    assert mean(some or [1 - STRAY]) == pytest.approx(1 - STRAY, abs=0.08)


@every_world
def test_what_a_response_shows_is_read_back(world: FamilyWorld) -> None:
    """The margin read from the texts is the planted one; an attribute is shown or avoided, never both or neither."""
    half = half_of(world)
    every = (1 << half) - 1
    for item in world.pairs(60):
        kind, read = world.kinds[item.kind], world.language.read_response
        chosen, rejected = read(item.pair.chosen), read(item.pair.rejected)
        assert kind.value(chosen.met) - kind.value(rejected.met) == pytest.approx(item.margin)
        for response in (chosen, rejected):
            assert (response.met & every) ^ (response.met >> half) == every
    wrapped = item.pair.chosen.replace(" ", "\n").upper()
    assert world.language.read_response(wrapped).met == chosen.met


@every_world
def test_every_proposal_is_read_back_to_its_attribute(world: FamilyWorld) -> None:
    """Each wording with each beginning, fitted to a prompt or not, names its attribute: met and avoided alike."""
    language = world.language
    for number in range(language.n_criteria):
        texts = language.wordings(number)
        assert texts[0] == language.rubric(number)
        assert len(set(texts)) == world.config.wordings
        for text in texts:
            predicate = text.removeprefix("The response ")
            for head in HEADS:
                for form in (f"{head} {predicate}", f"{REPHRASED}type-01: {head} {predicate}".upper()):
                    assert language.read_rubric(form).criterion == number
        drawn_texts = {language.proposal(number, draw_bytes("proposal", place)) for place in range(40)}
        assert len(drawn_texts) > world.config.wordings
        assert {language.read_rubric(text).criterion for text in drawn_texts} == {number}
        assert language.everything[number].facet in FACETS


@every_world
def test_induced_rubrics_name_real_differences(world: FamilyWorld) -> None:
    """What is proposed for a pair is generic, or an attribute that the chosen response alone has."""
    author, language, named = Author(world, MODEL), world.language, 0
    for item in world.pairs(60):
        rows = author.induce(prompt_text(item.pair.prompt), item.pair.chosen, item.pair.rejected)
        met, other = (language.read_response(text).met for text in (item.pair.chosen, item.pair.rejected))
        for row in rows:
            number = language.read_rubric(row["rubric"]).criterion
            if "the word" in row["rubric"]:
                continue
            if number is None:
                assert row["rubric"] in language.generic
            else:
                assert met >> number & 1
                assert not other >> number & 1
                named += 1
    assert named > 60


def test_texts_differ_as_drawn() -> None:
    """Wordings of a template differ from another criterion's in one word; paraphrases share no word but the heads'."""
    template, paraphrase = WORLDS[TEMPLATES].language, WORLDS[PARAPHRASES].language
    first, second = (set(template.rubric(number).split()) for number in (0, 1))
    assert (len(first - second), len(second - first)) == (1, 1)
    words = [set(text.split()) - {"The", "response", "the"} for n in range(4) for text in paraphrase.wordings(n)]
    assert sum(map(len, words)) == len(set.union(*words))


@every_world
def test_test_labels_are_right_and_training_labels_wrong_at_the_drawn_rate(world: FamilyWorld) -> None:
    """In the test the chosen response is truly better; in training it is worse in about the drawn share of pairs."""
    assert not any(item.flipped for item in world.pairs(100, "test"))
    least = world.config.min_margin - 1e-9
    assert all(item.margin >= least for item in world.pairs(100, "test"))
    training = list(world.pairs(500))
    assert all((item.margin < 0) == item.flipped and abs(item.margin) >= least for item in training)
    assert mean(item.flipped for item in training) == pytest.approx(world.config.label_noise, abs=0.05)


def test_style_leans_in_training_and_not_in_the_test() -> None:
    """A style is likelier in preferred training responses by the drawn lean, in test responses it says nothing."""
    world = WORLDS[STYLED]

    def lean(split: str) -> list[float]:
        met = [
            [world.language.read_response(text).met for text in (item.pair.chosen, item.pair.rejected)]
            for item in world.pairs(500, split)
        ]
        return [mean((a >> style & 1) - (b >> style & 1) for a, b in met) for style in world.styles]

    right = 1 - 2 * world.config.label_noise
    assert world.config.style == 0.2
    assert lean("train") == pytest.approx([2 * 0.2 * right] * 2, abs=0.1)
    assert lean("test") == pytest.approx([0, 0], abs=0.1)
    assert not any(style in kind.cares for kind in world.kinds for style in world.styles)
    assert not WORLDS[TEMPLATES].styles


@every_world
def test_human_rubrics_name_what_matters(world: FamilyWorld) -> None:
    """Human rubrics name criteria of the prompt's type alone, about as many as drawn, the same on every call."""
    kept = []
    for item in world.pairs(150, "test"):
        texts, cares = world.human_rubrics(item), world.kinds[item.kind].cares
        assert texts == world.human_rubrics(item)
        named = [world.language.read_rubric(text).criterion for text in texts]
        assert set(named) <= set(cares)
        assert len(set(named)) == len(named) > 0
        kept.append(len(named) / len(cares))
    assert mean(kept) == pytest.approx(world.config.human_keep, abs=0.05)


@every_world
def test_probes_lack_one_or_two_things_that_matter(world: FamilyWorld) -> None:
    """A probe keeps the response but for one or two criteria that it showed and now shows the lack of."""
    author, cut = Author(world, MODEL), 0
    for item in world.pairs(60):
        prompt, chosen = prompt_text(item.pair.prompt), item.pair.chosen
        kind = world.kinds[item.kind]
        probe = author.probe(prompt, chosen)
        lost = world.language.read_response(chosen).met & ~world.language.read_response(probe).met
        if any(world.language.everything[number].met in chosen for number in kind.cares):
            assert 1 <= sum(lost >> number & 1 for number in kind.cares) <= 2
            assert lost.bit_count() <= 2
            assert kind.value(world.language.read_response(probe).met) < kind.value(
                world.language.read_response(chosen).met
            )
            cut += 1
    assert cut > 50


@every_world
def test_the_judge_errs_as_drawn(world: FamilyWorld) -> None:
    """Verdicts contradict the planted attributes at the drawn rate, whichever model is served."""
    model = world.model(MODELS["sim-weak"])
    assert (model.noise, model.position_bias) == (world.config.noise, world.config.position_bias)
    judge, wrong = PlantedJudge(world, model), []
    for item in world.pairs(80):
        prompt = world.language.read_prompt(prompt_text(item.pair.prompt))
        response = world.language.read_response(item.pair.chosen)
        for number in world.kinds[item.kind].cares:
            rubric = world.language.read_rubric(world.language.rubric(number))
            wrong.append(judge.opinion(prompt, response, rubric).met != bool(response.met >> number & 1))
    assert mean(wrong) == pytest.approx(world.config.noise, abs=0.05)


def test_errors_that_are_shared_are_the_same_in_every_wording() -> None:
    """Where all errors are shared two wordings have one verdict; where none are, they differ now and then."""
    for number, shared in product((TEMPLATES, PARAPHRASES), (True, False)):
        config = replace(drawn(number), wordings=3, shared_errors=1.0 if shared else 0.0, noise=0.2)
        world = FamilyWorld(config)
        judge, differ = PlantedJudge(world, world.model(MODEL)), 0
        for item in world.pairs(40):
            prompt = world.language.read_prompt(prompt_text(item.pair.prompt))
            response = world.language.read_response(item.pair.chosen)
            for one in world.kinds[item.kind].cares:
                texts = map(world.language.read_rubric, world.language.wordings(one))
                differ += len({judge.opinion(prompt, response, rubric).met for rubric in texts}) > 1
        assert (differ == 0) is shared


def test_knowing_more_decides_better() -> None:
    """On average over draws the truth beats human rubrics, these beat a direct verdict, and more wordings beat one."""
    found = [calibrate(FamilyWorld(config), 120) for config in MANY[:8]]
    direct, human, truth, every, longest = (
        mean(getattr(one, name) for one in found)
        for name in ("direct", "human", "human_true_weights", "all_wordings", "longest")
    )
    assert 0.4 < longest < 0.6
    assert 0.4 < direct < human - 0.1
    assert human < truth - 0.05
    assert truth < every


def test_what_words_can_tell_is_known_from_words_alone() -> None:
    """What is knowable are the criteria of a prompt's type where words tell all, of all types where they do not."""
    told, untold = FamilyWorld(drawn(REPEATS)), FamilyWorld(DrawnConfig(draw=2, types=6, told=0.0))
    right = []
    for item in told.pairs(100, "test"):
        kind, prompt = told.kinds[item.kind], prompt_text(item.pair.prompt)
        known = told.knowable(prompt)
        right.append(known[0][0] == kind.cares[kind.weights.index(max(kind.weights))])
        assert known == told.knowable(prompt.rpartition("Reference")[0])
    assert mean(right) > 0.85
    beliefs = {tuple(untold.knowable(prompt_text(item.pair.prompt))) for item in untold.pairs(40, "test")}
    assert len(beliefs) == 1
    assert {number for number, _ in beliefs.pop()} == {number for kind in untold.kinds for number in kind.cares}


def test_made_up_words_are_new() -> None:
    """Words are made once each, of five letters and more, and never one that is taken."""
    taken = {"bodar"}
    words = made_up_words(random.Random(1), 2000, taken)
    assert len(set(words)) == 2000
    assert "bodar" not in words
    assert min(map(len, words)) >= 5
    assert taken == {"bodar", *words}


def test_a_word_of_a_template_alone_names_nothing() -> None:
    """A rubric without a word of the world's own names no attribute."""
    language = WORLDS[TEMPLATES].language
    assert isinstance(language, FamilyLanguage)
    assert language.read_rubric("The response must state the right condition.").criterion is None
    assert [language.read_rubric(text).criterion for text in language.generic] == [None] * len(language.generic)


def test_a_draw_is_not_negative() -> None:
    """A negative number is refused with its value."""
    with pytest.raises(ConfigError, match=r"a draw is a number from 0 \(got -1\)"):
        drawn(-1)
