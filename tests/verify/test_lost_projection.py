"""States that smaller games lose: each is unsafe, boxes with ranks say why, and whatever else is accepted is true by brute force."""

from __future__ import annotations

import copy
import json
import random
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pytest

import polvet
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.cli.app import run
from polvet.domains import generate
from polvet.errors import InputError, ModelError, Where
from polvet.jani.write import dump_model
from polvet.kernel.starts import Starts
from polvet.model.build import ModelBuilder
from polvet.model.semantics import Semantics
from polvet.model.terms import every
from polvet.records.state_json import Malformed
from polvet.safety import Decider, Verdict
from polvet.safety.lost_ranks import ranked_boxes
from polvet.safety.projections import core_of, iter_lost, solve_pattern
from polvet.sources import load_task
from polvet.verify import lost_projection
from polvet.verify.lost_projection import prove_lost, prove_unsafe

JUDGE = partial(check, where=Where("claim"))


def hard_world(seed, folder):
    """A task in a file, of few variables and affine changes, in which fail is near; now and then a rule may be broken."""
    rng = random.Random(seed)
    model = ModelBuilder("hard")
    tops = {name: rng.randint(1, 4) for name in ("x", "y", "z")[: rng.randint(2, 3)]}
    variables = {name: model.int(name, 0, top) for name, top in tops.items()}
    labels = ["a", "b", "c"][: rng.randint(1, 3)]
    model.labels(*labels)
    for label in [*labels, *rng.choices([*labels, None], k=rng.randint(1, 4))]:
        tests, changes = [], []
        for _ in range(rng.randint(1, 2)):
            name = "x" if rng.random() < 0.6 else rng.choice(list(tops))
            by, one = rng.choice([1, 1, 1, -1]), variables[name]
            if rng.random() < 0.15:
                changes.append({one: rng.randint(0, tops[name])})
                continue
            changes.append({one: one + by})
            if rng.random() < 0.97:
                tests.append(one < tops[name] if by > 0 else one > 0)
        if rng.random() < 0.3:
            name = rng.choice(list(tops))
            tests.append(variables[name] >= rng.randint(0, tops[name]))
        guard = every(*tests) if tests else None
        model.edge(label, guard=guard, to=[(Fraction(1, len(changes)), change) for change in changes])
    (folder / "hard.jani").write_text(dump_model(model.build()), encoding="utf-8")
    goal = rng.choice(["false", "false", f"y == {tops['y']} & x == 0"])
    fail = rng.choice([f"x == {tops['x']}", f"x == {tops['x']}", f"x >= 1 & y == {tops['y']}"])
    (folder / "hard.toml").write_text(f'model = "hard.jani"\nfail = "{fail}"\ngoal = "{goal}"\nstart = "x == 0"\n')
    return load_task(folder / "hard.toml"), folder / "hard.toml"


def all_states(task):
    return list(product(*(range(int(v.lower), int(v.upper) + 1) for v in task.network.variables)))


def doomed_by_brute_force(task):
    """States from which no policy avoids `fail`, by the interpreter and plain iteration."""
    semantics = Semantics(task.network)
    is_fail, is_goal = semantics.compile(task.fail), semantics.compile(task.goal)
    states = all_states(task)
    doomed = {state for state in states if is_fail(state)}
    choices = {}
    for state in states:
        if not is_fail(state) and not is_goal(state):
            try:
                moves = semantics.moves(state)
            except InputError:  # a rule is broken there: nobody says that it is unsafe
                continue
            silent = {o.state for move in moves if move.label is None for o in move.outcomes}
            labels = {move.label for move in moves if move.label is not None} or {None}
            mine = [silent | {o.state for m in moves if m.label == one for o in m.outcomes} for one in labels]
            choices[state] = [outcomes for outcomes in mine if outcomes]
    while True:
        more = {s for s, c in choices.items() if s not in doomed and c and all(one & doomed for one in c)}
        if not more:
            return doomed
        doomed |= more


def games_of(task):
    """What the relaxed games lose: over the patterns of `iter_lost`, and over each variable with those of `fail`."""
    variables = task.network.variables
    core = {task.network.index_of(name) for name in core_of(task)}
    more = {tuple(sorted({*core, k})) for k in range(len(variables))} if core else set()
    return [*iter_lost(task), *(solve_pattern(task, pattern) for pattern in sorted(more))]


def told_states(task, claim):
    """The states that satisfy the rows and are in a box of the claim."""
    names = [variable.name for variable in task.network.variables]
    return [
        state
        for state in all_states(task)
        if all(
            row["lower"] <= sum(c * state[names.index(n)] for n, c in row["terms"].items()) <= row["upper"]
            for row in claim["rows"]
        )
        and any(
            all(low <= state[names.index(n)] <= high for n, (low, high) in item["box"].items())
            for game in claim["lost"]
            for item in game
        )
    ]


@pytest.fixture(scope="module")
def claims(tmp_path_factory):
    """Small tasks in files with a certificate of the unsafe states each, and what is doomed by brute force."""
    folder, made = tmp_path_factory.mktemp("claims"), []
    for seed in range(300):
        place = folder / str(seed)
        place.mkdir()
        task, file = hard_world(seed, place)
        games = [told for told in games_of(task) if told.ranks is not None and (told.ranks > 0).any()]
        if not games:
            continue
        doomed = doomed_by_brute_force(task)
        unsafe = [state for state in all_states(task) if state in doomed]
        try:
            claim = prove_lost(task, games, unsafe)
        except ModelError:  # a search meets a broken rule
            continue
        if claim is not None and claim["kind"] == "lost-projection":
            made.append((task, file, claim, doomed))
    return made


def test_what_games_lose_in_random_worlds_is_doomed_and_its_certificate_is_accepted(claims):
    told = 0
    for task, file, claim, doomed in claims:
        assert isinstance(JUDGE(json.loads(json.dumps(claim)), Subjects(file)), Accepted)
        assert doomed.issuperset(told_states(task, claim))
        told += len(told_states(task, claim))
    assert len(claims) > 100
    assert told > 1_000


def changed(rng, claim, task):
    """The claim with one or two things changed in it."""
    lie = copy.deepcopy(claim)
    variables = task.network.variables
    for _ in range(rng.randint(1, 2)):
        game = rng.choice(lie["lost"])
        item = rng.choice(game)
        variable = rng.choice(variables)
        match rng.randrange(7):
            case 0:
                item["rank"] += rng.choice([-3, -1, 1, 3])
            case 1:
                item["slopes"][variable.name] = item["slopes"].get(variable.name, 0) + rng.choice([-1, 1])
            case 2:
                item["box"].pop(variable.name, None)
            case 3:
                ends = sorted(rng.randint(int(variable.lower), int(variable.upper)) for _ in range(2))
                item["box"][variable.name] = ends
            case 4 if len(game) > 1:
                game.remove(item)
            case 5 if lie["rows"]:
                lie["rows"].pop()
            case _:
                game.append({"box": {}, "rank": rng.randint(-2, 5), "slopes": {variable.name: rng.randint(-2, 2)}})
    return lie


def test_whatever_is_accepted_of_changed_certificates_is_true(claims):
    rng, answers = random.Random(5), {True: 0, False: 0}
    for task, file, claim, doomed in claims:
        for _ in range(4):
            lie = changed(rng, claim, task)
            accepted = isinstance(JUDGE(lie, Subjects(file)), Accepted)
            answers[accepted] += 1
            assert not accepted or doomed.issuperset(told_states(task, lie)), lie
    assert answers[False] > 200
    assert answers[True] > 20


def test_whatever_is_accepted_of_invented_certificates_is_true(claims):
    rng, false = random.Random(6), 0
    for task, file, claim, doomed in claims:
        variables = task.network.variables
        for _ in range(6):
            boxes = []
            for _ in range(rng.randint(1, 3)):
                ends = {v.name: sorted(rng.randint(int(v.lower), int(v.upper)) for _ in range(2)) for v in variables}
                slopes = {v.name: rng.randint(-2, 2) for v in variables}
                boxes.append({"box": ends, "rank": rng.randint(0, 4), "slopes": slopes})
            lie = {**claim, "rows": [], "lost": [boxes]}
            state = rng.choice(told_states(task, lie))
            names = [variable.name for variable in variables]
            lie["states"] = [{"state": dict(zip(names, state, strict=True)), "rank": 0, "actions": []}]
            lie["start"] = [0]
            accepted = isinstance(JUDGE(lie, Subjects(file)), Accepted)
            assert not accepted or doomed.issuperset(told_states(task, lie)), lie
            false += not doomed.issuperset(told_states(task, lie))
    assert false > 200


def test_a_box_is_left_where_all_boxes_end_alike(tmp_path):
    (tmp_path / "walk.prism").write_text("mdp\nmodule walk\n x : [0..6];\n [right] x<6 -> (x'=x+1);\nendmodule\n")
    (tmp_path / "walk.toml").write_text('model = "walk.prism"\nfail = "x = 5 & x = 6"\n')
    assert run(["decide", str(tmp_path / "walk.toml"), "--state", "x=0", "-o", str(tmp_path / "safe.json")]) == 0
    claim = {key: json.loads((tmp_path / "safe.json").read_text())[key] for key in ("format", "task_sha256")}
    claim |= {"kind": "lost-projection", "start": [0], "states": [{"state": {"x": 0}, "rank": 0, "actions": []}]}
    falling = {"box": {"x": [0, 3]}, "rank": 10, "slopes": {"x": -1}}
    for boxes in ([falling], [falling, falling]):
        assert isinstance(JUDGE({**claim, "rows": [], "lost": [boxes]}, Subjects(tmp_path / "walk.toml")), Rejected)


def test_malformed_certificates_are_rejected(claims):
    _, file, claim, _ = claims[0]
    box = claim["lost"][0][0]
    for lost in (
        None, [], [[]], {}, [{}], [[{}]], [[{**box, "rank": True}]], [[{**box, "rank": 1.5}]], [[{**box, "rank": 2**41}]],
        [[{**box, "slopes": {"x": 2**21}}]], [[{**box, "slopes": {"q": 1}}]], [[{**box, "slopes": []}]],
        [[{**box, "box": {"x": [3, 2]}}]], [[{**box, "box": {"x": [0, 99]}}]], [[{**box, "box": {"x": [0]}}]],
    ):  # fmt: skip
        assert isinstance(JUDGE({**claim, "lost": lost}, Subjects(file)), Rejected), lost
    for change in ({"rows": None}, {"avoids": ["deadlock"]}, {"start": []}, {"states": []}):
        assert isinstance(JUDGE({**claim, **change}, Subjects(file)), Rejected), change


def test_ranks_are_affine_in_their_boxes_and_the_boxes_hold_all_of_them():
    rng = random.Random(7)
    for _ in range(60):
        shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 3))]
        ranks = np.array([rng.choice([-1, 0, 1, 1, 2, 3]) for _ in range(int(np.prod(shape)))], dtype=np.int32)
        ranks = ranks.reshape(shape)
        seen = np.zeros(shape, dtype=bool)
        for box in ranked_boxes(ranks, [0]):
            for cell in product(*(range(low, high + 1) for low, high in zip(box.low, box.high, strict=True))):
                told = box.rank + sum(
                    slope * (at - low) for slope, at, low in zip(box.slopes, cell, box.low, strict=True)
                )
                assert told == ranks[cell] > 0
                seen[cell] = True
            if box.high[0] == shape[0] - 1 and box.low[0] < box.high[0]:
                assert box.slopes[0] == 0
        assert (seen == (ranks > 0)).all()


@pytest.mark.parametrize("given", [{}, {"icy": True}, {"park": True}, {"icy": True, "park": True}], ids=str)
def test_a_sharpened_search_proves_unsafe_states_of_a_line(given, tmp_path):
    _, file = generate("one-way-line", n=4, p=6, **given).write(tmp_path / "line.jani")
    line = load_task(file)
    states = {state for state in Starts.of(line).states()}
    rng = random.Random(1)
    semantics = Semantics(line.network)
    for state in list(states)[:40]:
        for _ in range(12):
            after = [outcome.state for move in semantics.moves(state) for outcome in move.outcomes]
            if not after:
                break
            states.add(state := rng.choice(after))
    chosen = sorted(states)
    names = [variable.name for variable in line.network.variables]
    asked = [dict(zip(names, state, strict=True)) for state in chosen]
    task = polvet.load(file)
    plain, sharp = task.decide(asked), task.decide(asked, sharpen=True, certificates=tmp_path / "proofs")
    assert sharp.safe == plain.safe
    assert False in sharp.safe
    claim = json.loads((tmp_path / "proofs" / "unsafe.json").read_text())
    assert claim["kind"] == "lost-projection"
    assert len(claim["start"]) == sharp.safe.count(False)
    assert polvet.certify(tmp_path / "proofs" / "unsafe.json", task=file).accepted
    alone = task.decide(asked[sharp.safe.index(False)], sharpen=True)
    assert alone.certificate["kind"] in ("lost-projection", "unsafe-rank")


def test_where_the_checker_will_not_follow_a_search_makes_the_evidence(claims, monkeypatch):
    task, file, claim, doomed = claims[0]
    games = games_of(task)
    monkeypatch.setattr(lost_projection, "check_games", _refuse)
    assert prove_lost(task, games, sorted(doomed)) is None
    proof = prove_unsafe(task, games, sorted(doomed))
    assert proof["kind"] == "unsafe-rank"
    assert isinstance(JUDGE(proof, Subjects(file)), Accepted)
    assert claim["kind"] == "lost-projection"


def _refuse(space, games):
    raise Malformed("not read")


def test_ranks_of_states_alone_are_refused_of_a_decider_that_knows_games(claims):
    task, _, _, doomed = claims[0]
    decider = Decider(task)
    decider.foresee(games_of(task)[0])
    with pytest.raises(ValueError, match="without smaller games"):
        polvet.safety.prove(decider, sorted(doomed)[:1], Verdict.UNSAFE)
