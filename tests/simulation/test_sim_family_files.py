"""`svr sim --draw` and `svr sim --draw`: the endpoint and the data of a drawn world agree on its number alone."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import sim_requests as ask

from svr_async.commands.main import run, svr
from svr_async.core.pair import prompt_text
from svr_async.simulation.author import Author
from svr_async.simulation.brain import Simulator
from svr_async.simulation.calibration import calibrate_items
from svr_async.simulation.config import SimConfig
from svr_async.simulation.family import drawn
from svr_async.simulation.family_world import FamilyWorld
from svr_async.simulation.files import apportion, drawn_domains, unseen_pairs
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.models import MODELS
from svr_async.simulation.planted import PlantedPair
from svr_async.simulation.server import SimServer
from svr_async.simulation.topics import DOMAIN_COUNTS
from svr_async.simulation.world import World, preset
from svr_async.simulation.worlds import plant

DRAW = 104
WORLD = FamilyWorld(drawn(DRAW))
SMALL = 124  # of 312 pairs


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the bytes of the files of a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small written draw."""
    out = tmp_path_factory.mktemp("drawn") / "w"
    assert run(svr, "svr", ["sim", "--draw", str(DRAW), "--train", "60", "--test", "150", "--write", str(out)]) == 0
    return out


def test_the_folder_holds_pairs_note_and_properties(
    written: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Four files are written, a second time with the same bytes, and what is said names them."""
    args = ["sim", "--draw", str(DRAW), "--train", "60", "--test", "150", "--write", str(tmp_path / "again")]
    assert run(svr, "svr", args) == 0
    said = capsys.readouterr().out
    assert set(files_of(written)) == {"train.jsonl", "rubricbench.jsonl", "README.txt", "properties.json"}
    assert files_of(written) == files_of(tmp_path / "again")
    assert "60 pairs in" in said
    assert "properties.json" in said


def test_rows_have_the_schemas_of_every_simulated_world(written: Path) -> None:
    """Training and test rows have the fields that the other worlds' have, and are the pairs of the draw."""
    train, test = rows_of(written / "train.jsonl"), rows_of(written / "rubricbench.jsonl")
    assert (len(train), len(test)) == (60, 150)
    assert {tuple(row) for row in train} == {("id", "prompt", "chosen", "rejected", "domain", "source")}
    fields = ("case_id", "instruction", "response_a", "response_b", "label", "rubrics", "source", "domain")
    assert {tuple(row) for row in test} == {fields}
    assert [row["chosen"] for row in train] == [item.pair.chosen for item in WORLD.pairs(60)]
    assert [row["rubrics"] for row in test] == ["\n".join(WORLD.human_rubrics(one)) for one in WORLD.pairs(150, "test")]


def test_test_labels_point_at_the_better_response(written: Path) -> None:
    """Label 0 means response A, in every test pair."""
    for row in rows_of(written / "rubricbench.jsonl"):
        kind = WORLD.kind_of(WORLD.language.read_prompt(row["instruction"]))
        assert kind is not None
        a, b = (kind.value(WORLD.language.read_response(row[name]).met) for name in ("response_a", "response_b"))
        assert (a > b) == (row["label"] == 0)


def test_domains_have_nothing_to_do_with_types() -> None:
    """The fine domains come in RubricBench's proportions, and the pairs are those that the draw has without them."""
    found = Counter(drawn_domains(DRAW, 400))
    exact = apportion([size for *_, size in DOMAIN_COUNTS], 400)
    assert found == {name: size for (_, name, _), size in zip(DOMAIN_COUNTS, exact, strict=True) if size}
    assert drawn_domains(DRAW, 400) != drawn_domains(DRAW + 1, 400)
    assert [item for item, _ in unseen_pairs(WORLD, 40)] == list(WORLD.pairs(40, "test"))


def test_properties_say_what_was_drawn_and_what_the_truth_gives(written: Path) -> None:
    """properties.json has every property of the draw, and each way of deciding as calibration counts it."""
    told = json.loads((written / "properties.json").read_bytes())
    found = calibrate_items(WORLD, list(WORLD.pairs(150, "test")))
    assert told["simulated"] is True
    assert (told["draw"], told["train_pairs"], told["test_pairs"]) == (DRAW, 60, 150)
    assert told["properties"] == WORLD.config.properties()
    assert told["accuracy"].pop("knowable") > found.direct + 0.1
    assert told["accuracy"] == {
        "direct": found.direct,
        "self_written": found.self_written,
        "human": found.human,
        "one_wording": found.human_true_weights,
        "all_wordings": found.all_wordings,
        "longest": found.longest,
    }


def test_what_can_be_known_is_the_truth_where_words_tell_all(tmp_path: Path) -> None:
    """Where all words are their type's, the knowable weights decide about as well as the true ones."""
    assert run(svr, "svr", ["sim", "--draw", "101", "--train", "1", "--test", "200", "--write", str(tmp_path)]) == 0
    accuracy = json.loads((tmp_path / "properties.json").read_bytes())["accuracy"]
    assert accuracy["knowable"] == pytest.approx(accuracy["one_wording"], abs=0.04)
    assert accuracy["knowable"] > accuracy["human"]


def test_the_note_says_that_it_is_simulated(written: Path) -> None:
    """The note names the word simulated, the flags of the endpoint, every property, and the accuracies."""
    text = (written / "README.txt").read_text("utf-8")
    assert text.startswith("SIMULATED DATA")
    assert f"`svr sim --draw {DRAW}`" in text
    assert all(f"  {name}: {value}\n" in text for name, value in WORLD.config.properties().items())
    told = json.loads((written / "properties.json").read_bytes())["accuracy"]
    assert all(f"{value:6.1%}\n" in text for value in told.values())


def test_without_train_a_draw_has_its_own_number_of_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The number of training pairs is the draw's own where no other is asked for."""
    assert run(svr, "svr", ["sim", "--draw", str(SMALL), "--test", "5", "--write", str(tmp_path)]) == 0
    assert len(rows_of(tmp_path / "train.jsonl")) == drawn(SMALL).pairs == 312
    assert "312 pairs in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--draw", "3", "--seed", "0", "--write", "w"], ["--draw 3", "--seed", "leave out"]),
        (["--draw", "3", "--world", "plain", "--write", "w"], ["--draw 3", "--world"]),
        (["--draw", "3", "--seed", "1", "--world", "varied"], ["--draw 3", "--seed and --world"]),
        (["--draw", "-1"], ["--draw", "-1"]),
        (["--draw", "many", "--write", "w"], ["--draw", "many"]),
        (["--draw", "3", "--train", "0", "--write", "w"], ["--train", "0"]),
    ],
)
def test_flags_that_do_not_go_together_are_one_line(
    args: list[str],
    words: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A draw beside a seed or a world, and a number that is none, end with exit 2 and one line that quotes them."""
    monkeypatch.chdir(tmp_path)
    assert run(svr, "svr", ["sim", *args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert all(word in said.err for word in words)
    assert not list(tmp_path.iterdir())


def test_one_place_plants_every_kind_of_world() -> None:
    """Settings of the catalogue give a world of it, those of a draw one of the family."""
    assert isinstance(plant(preset("varied", 3)), World)
    assert plant(drawn(DRAW)).kinds == WORLD.kinds


def test_the_fingerprint_of_a_draw_depends_on_all_of_it() -> None:
    """Endpoints of two draws, and of one with any property changed, tell that they are not the same."""
    config = drawn(DRAW)
    changed = [replace(config, noise=0.0), replace(config, min_margin=0.2), replace(config, pairs=1), drawn(DRAW + 1)]
    prints = {Simulator(SimConfig(world=one)).fingerprint for one in (config, *changed)}
    assert len(prints) == 5
    assert Simulator(SimConfig(world=drawn(DRAW))).fingerprint in prints


def requests_of(item: PlantedPair) -> list[dict[str, Any]]:
    """Return a request of every role about a pair."""
    prompt, pair = prompt_text(item.pair.prompt), item.pair
    rubrics = [WORLD.language.wordings(number)[-1] for number in WORLD.kinds[item.kind].cares]
    return [
        ask.compare(prompt, pair.response_a, pair.response_b, rubrics, overall=True),
        ask.direct(prompt, pair.response_a, pair.response_b),
        ask.induce(prompt, pair.chosen, pair.rejected),
        ask.induce(prompt, pair.chosen, None),
        ask.probe(prompt, pair.chosen),
        ask.write(prompt),
        ask.score(prompt, pair.chosen, rubrics),
        ask.rephrase(prompt, rubrics),
    ]


async def test_over_http_the_answers_are_those_in_process() -> None:
    """Every role's reply over HTTP is the simulator's, and judge and author of the draw say the same without either."""
    config = SimConfig(seed=DRAW, world=drawn(DRAW))
    model = WORLD.model(MODELS[ask.MODEL])
    judge, author, language = PlantedJudge(WORLD, model), Author(WORLD, model), WORLD.language
    async with SimServer(config) as sim, aiohttp.ClientSession() as session:
        for item in WORLD.pairs(6, "test"):
            replies = []
            for body in requests_of(item):
                async with session.post(f"{sim.base_url}/chat/completions", json=body) as response:
                    replies.append(await response.json())
                assert replies[-1] == Simulator(config).answer(body)
            prompt, pair = prompt_text(item.pair.prompt), item.pair
            asked = language.read_prompt(prompt)
            of_a, of_b = language.read_response(pair.response_a), language.read_response(pair.response_b)
            rubrics = [language.wordings(number)[-1] for number in WORLD.kinds[item.kind].cares]
            rows = [judge.compare(asked, of_a, of_b, language.read_rubric(text)) for text in rubrics]
            assert ask.verdicts(replies[0], rubrics) == {row.rubric_id: (row.a.value, row.b.value) for row in rows}
            assert ask.content(replies[1]).endswith(f"[[{judge.prefer(asked, of_a, of_b).value}]]")
            told = [ask.payload(reply)["contrastive_rubrics"] for reply in replies[2:4]]
            assert told == [author.induce(prompt, pair.chosen, other) for other in (pair.rejected, None)]
            assert ask.content(replies[4]) == author.probe(prompt, pair.chosen)


def test_the_command_serves_the_draw_that_it_wrote(written: Path) -> None:
    """`svr sim --draw N` answers about the pairs of `svr sim --draw N` as that draw's simulator does."""
    code = "from svr_async.commands.sim import sim; sim()"
    row = rows_of(written / "rubricbench.jsonl")[0]
    body = ask.compare(row["instruction"], row["response_a"], row["response_b"], row["rubrics"].split("\n"))
    with subprocess.Popen(
        [sys.executable, "-c", code, "--port", "0", "--draw", str(DRAW)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = next(word for word in process.stdout.readline().split() if word.startswith("http://127.0.0.1:"))
            data = json.dumps(body).encode()
            request = urllib.request.Request(f"{url}/chat/completions", data, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=20) as response:
                reply = json.load(response)
        finally:
            process.terminate()
        assert process.stdout is not None
        process.stdout.read()
        assert process.wait(20) == 0
    assert reply == Simulator(SimConfig(seed=DRAW, world=drawn(DRAW))).answer(body)


def test_noise_and_bias_are_the_draws_unless_given() -> None:
    """Every served model errs and leans as drawn; given noise and bias replace both."""
    config = drawn(DRAW)

    def served(**given: Any) -> set[tuple[float, float]]:
        minds = Simulator(SimConfig(world=config, **given))._minds
        return {(judge.model.noise, judge.model.position_bias) for judge, _ in minds.values()}

    assert served() == {(config.noise, config.position_bias)}
    assert served(noise=0.0) == {(0.0, config.position_bias)}
    assert served(noise=0.5, position_bias=0.9) == {(0.5, 0.9)}
