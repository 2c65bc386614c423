"""States that smaller games win: each is safe, one certificate proves all of them, and `decide --sharpen` says what the search says."""

from __future__ import annotations

import copy
import json
import random

import numpy as np
import pytest

import polvet
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.domains import generate
from polvet.errors import InputError, Where
from polvet.kernel.starts import Starts
from polvet.safety import Decider, Verdict
from polvet.sources import load_task
from polvet.verify.won_projection import WonProjection, find_won
from tests.verify.small_tasks import random_task

LINES = [("two-way-line", {"n": 3, "p": 4, "icy": True}), ("one-way-line", {"n": 2, "p": 8, "icy": True, "park": True})]


def judged(task):
    """All start states of a small task, and those reached from them, with whether they are safe."""
    decider = Decider(task)
    states = list(Starts.of(task).states())
    return states, [answer.verdict is Verdict.SAFE for answer in decider.decide(states)]


def test_won_states_of_random_worlds_are_safe_and_their_certificate_is_accepted(tmp_path):
    proved = games = 0
    for seed in range(60):
        task, _, files = random_task(seed, tmp_path)
        won = find_won(task)
        if isinstance(won, str):
            continue
        games += 1
        states, safe = judged(task)
        chosen = [state for state in states if won.holds(state)]
        assert all(good for state, good in zip(states, safe, strict=True) if won.holds(state)), seed
        if chosen:
            answer = check(won.prove(chosen), Subjects(files[0]), Where("claim"))
            assert isinstance(answer, Accepted), (seed, answer)
            proved += len(chosen)
    assert games > 20
    assert proved > 300


@pytest.fixture(scope="module", params=LINES, ids=lambda one: one[0])
def line(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("line")
    name, given = request.param
    file = folder / "line.toml"
    generate(name, **given).write(folder / "line.jani")
    won = find_won(load_task(file))
    assert isinstance(won, WonProjection)
    states = [state for state in Starts.of(won.task).states() if won.holds(state)]
    return file, won, states


def test_one_certificate_proves_all_won_states_of_a_line(line):
    file, won, states = line
    assert isinstance(check(won.prove(states), Subjects(file), Where("claim")), Accepted)


def test_changed_certificates_are_rejected(line):
    file, won, states = line
    honest, rng = won.prove(states[:5]), random.Random(1)
    lost = np.argwhere(~won.exits.won)[0]
    outside = list(states[0])
    for place, value in zip(won.exits.variables, lost.tolist(), strict=True):
        outside[place] = value + int(won.task.network.variables[place].lower)
    names = [variable.name for variable in won.task.network.variables]
    lies = []
    for _ in range(4):
        lie = copy.deepcopy(honest)
        row = rng.choice(lie["policy"]["rows"])
        row["scores"] = [1 - score for score in row["scores"]]
        lies.append(lie)
    lie = copy.deepcopy(honest)
    lie["blocked"].pop()
    lies += [lie, {**honest, "rows": [], "blocked": []}, {**honest, "avoids": ["deadlock"]}, {**honest, "start": [0]}]
    lies.append({**honest, "states": [{"state": dict(zip(names, outside, strict=True))}], "start": [0]})
    lies.append({**honest, "policy": {**honest["policy"], "rows": []}})
    answers = [check(lie, Subjects(file), Where("claim")) for lie in lies]
    assert all(isinstance(answer, Rejected) for answer in answers), answers


@pytest.mark.parametrize("algorithm", ["lazy", "ipi", "npi", "tarjan", "propagate", "vi", "tvi", "lao", "lrtdp"])
def test_sharpened_searches_say_what_searches_say(algorithm, tmp_path):
    for seed in range(8):
        _, _, files = random_task(seed, tmp_path)
        task = polvet.load(files[0])
        plain, sharp = task.decide(), task.decide(algorithm=algorithm, sharpen=True)
        assert sharp.safe == plain.safe, seed
        assert sharp.checked is not False


def test_the_evidence_of_a_sharpened_search_is_written_and_accepted(line, tmp_path):
    file, won, states = line
    task = polvet.load(file)
    found = task.decide(sharpen=True, certificates=tmp_path)
    assert found.checked
    assert {json.loads(one.read_text())["kind"] for one in tmp_path.glob("safe*.json")} >= {"won-projection"}
    for one in tmp_path.glob("*.json"):
        assert polvet.certify(one, task=file).accepted
    names = [variable.name for variable in won.task.network.variables]
    alone = task.decide(dict(zip(names, states[0], strict=True)), sharpen=True)
    assert alone.certificate["kind"] == "won-projection"


@pytest.mark.parametrize("beside", [{"region": True}, {"bound": "0.1"}, {"goal_reaching": True}])
def test_sharpening_is_refused_where_it_says_nothing(line, beside):
    with pytest.raises(InputError, match="smaller games"):
        polvet.load(line[0]).decide(sharpen=True, **beside)
