"""Strong-cyclic policies: verdicts as by trying every policy, evidence that checks, and false evidence that does not."""

import copy
import json
import random
from fractions import Fraction
from itertools import product

import pytest

from polvet.budget import Budget
from polvet.check.checker import Accepted, Rejected, Subjects, check
from polvet.cli.app import run
from polvet.errors import InputError, LimitReached, Where
from polvet.jani.write import dump_model
from polvet.model.build import ModelBuilder
from polvet.safety.strong_cyclic import prove_lost, prove_won, solve
from polvet.sources import load_task
from tests.pddl.conftest import FOND, needs_benchmarks, references

LABELS = ("a", "b", "c")


class Game:
    """A random game on a few states: actions with outcomes, silent operators, goal and fail states."""

    def __init__(self, seed, folder):
        rng = random.Random(seed)
        self.size = rng.randint(2, 6)
        states = range(self.size)
        self.operators = []  # (state, label or None, outcomes)
        for state in states:
            for label in LABELS[: rng.randint(0, 3)]:
                for _ in range(rng.choice([1, 1, 1, 2])):
                    self.operators.append((state, label, rng.sample(states, rng.randint(1, min(3, self.size)))))
            if rng.random() < 0.15:
                self.operators.append((state, None, rng.sample(states, rng.randint(1, 2))))
        self.operators = self.operators or [(0, "a", [0])]
        self.goal = set(rng.sample(states, 1)) | {state for state in states if rng.random() < 0.1}
        self.fail = {state for state in states if rng.random() < 0.15}
        builder = ModelBuilder("game", type="mdp")
        s = builder.int("s", 0, self.size - 1, initial=0)
        for state, label, outcomes in self.operators:
            builder.edge(label, guard=s == state, to=[(Fraction(1, len(outcomes)), {"s": one}) for one in outcomes])
        self.file = folder / "game.toml"
        (folder / "game.jani").write_text(dump_model(builder.build()), encoding="utf-8")
        conditions = {"goal": self.goal, "fail": self.fail}
        lines = [
            f'{role} = "{" || ".join(f"s == {one}" for one in sorted(among)) or "false"}"'
            for role, among in conditions.items()
        ]
        self.file.write_text('model = "game.jani"\n' + "\n".join(lines) + "\n", encoding="utf-8")
        self.task = load_task(self.file)

    def actions(self, state):
        """The outcomes of each action, silent operators' added to each."""
        silent = {one for at, label, outcomes in self.operators if at == state and label is None for one in outcomes}
        found = {}
        for at, label, outcomes in self.operators:
            if at == state and label is not None:
                found.setdefault(label, set(silent)).update(outcomes)
        return found or ({None: silent} if silent else {})

    def is_won(self, start):
        """Try every policy."""
        inside = [state for state in range(self.size) if state not in self.goal | self.fail]
        for choices in product(*(list(self.actions(state).items()) or [(None, set())] for state in inside)):
            follows = dict.fromkeys(range(self.size), frozenset()) | {
                state: outcomes for state, (_, outcomes) in zip(inside, choices, strict=True)
            }
            seen = self._reached(start, follows)
            if not seen & self.fail and all(self._reached(one, follows) & self.goal for one in seen):
                return True
        return False

    @staticmethod
    def _reached(start, follows):
        seen, pending = {start}, [start]
        while pending:
            for one in follows[pending.pop()]:
                if one not in seen:
                    seen.add(one)
                    pending.append(one)
        return seen

    def check(self, certificate):
        return check(certificate, Subjects(self.file), Where("certificate"))


@pytest.mark.parametrize("seed", range(120))
def test_verdicts_are_those_of_trying_every_policy_and_their_evidence_checks(seed, tmp_path):
    game = Game(seed, tmp_path)
    starts = [(state,) for state in range(game.size)]
    solved = solve(game.task, starts)
    won = {state for (state,) in starts if solved.is_won((state,))}
    assert won == {state for state in range(game.size) if game.is_won(state)}
    for state in range(game.size):
        certificate = (prove_won if state in won else prove_lost)(solved, [(state,)])
        assert isinstance(game.check(json.loads(json.dumps(certificate))), Accepted)


def _changed(rng, certificate, size):
    """Return the certificate with one part changed."""
    found = copy.deepcopy(certificate)
    row = rng.choice(found["states"])
    key = "distance" if found["kind"] == "strong-cyclic" else "round"
    match rng.randint(0, 6):
        case 0:
            row[key] = max(0, row[key] + rng.choice([-2, -1, 1, 2]))
        case 1:
            row["action"] = rng.choice([None, *LABELS])
        case 2:
            found["states"].remove(row)
        case 3:
            row["state"] = {"s": rng.randrange(size)}
        case 4:
            found["states"].append(
                {"state": {"s": rng.randrange(size)}, key: rng.randint(0, 3), "action": rng.choice(LABELS)}
            )
        case 5:
            found["start"] = [rng.randrange(len(found["states"]))]
        case _:
            found["kind"] = "no-strong-cyclic" if found["kind"] == "strong-cyclic" else "strong-cyclic"
            for one in found["states"]:
                one.setdefault("distance", one.get("round"))
                one.setdefault("round", one.get("distance"))
                one.setdefault("action", "a")
    return found


def test_changed_certificates_are_accepted_only_where_their_claim_is_true(tmp_path):
    rng = random.Random(7)
    rejected = accepted = 0
    for seed in range(60):
        game = Game(seed, tmp_path)
        solved = solve(game.task, [(0,)])
        certificate = (prove_won if solved.is_won((0,)) else prove_lost)(solved, [(0,)])
        for _ in range(25):
            changed = _changed(rng, certificate, game.size)
            answer = game.check(changed)
            if isinstance(answer, Rejected):
                rejected += 1
                continue
            accepted += 1
            starts = [changed["states"][place]["state"]["s"] for place in changed["start"]]
            assert all(game.is_won(one) == (changed["kind"] == "strong-cyclic") for one in starts)
    assert rejected > 700
    assert accepted > 10


MALFORMED = [
    {"states": []},
    {"states": None},
    {"states": [1]},
    {"start": []},
    {"start": [5]},
    {"start": None},
    {"states": [{"state": {"s": 0}}]},
    {"states": [{"state": {"s": 0}, "action": "a", "distance": True, "round": True}]},
    {"states": [{"state": {"s": 0}, "action": 1, "distance": 1, "round": -1}]},
    {"states": [{"state": {}, "action": "a", "distance": 1, "round": 1}]},
    {"states": [{"state": {"s": 0}, "action": "a", "distance": 1, "round": 1}] * 2},
    {"task_sha256": "0"},
    {"options": {"goal": "s >= 0"}},
]


@pytest.mark.parametrize("kind", ["strong-cyclic", "no-strong-cyclic"])
@pytest.mark.parametrize("change", MALFORMED, ids=str)
def test_malformed_certificates_are_rejected(kind, change, tmp_path):
    games = (Game(seed, tmp_path) for seed in range(60))
    game = next(one for one in games if 0 not in one.goal | one.fail and one.is_won(0) == (kind == "strong-cyclic"))
    solved = solve(game.task, [(0,)])
    certificate = (prove_won if kind == "strong-cyclic" else prove_lost)(solved, [(0,)])
    assert isinstance(game.check(certificate), Accepted)
    assert isinstance(game.check({**certificate, **change}), Rejected)


def test_a_goal_is_needed_and_limits_are_told(tmp_path):
    game = Game(1, tmp_path)
    (tmp_path / "aimless.toml").write_text('model = "game.jani"\nfail = "s == 1"\n', encoding="utf-8")
    with pytest.raises(InputError, match="the task has no goal"):
        solve(load_task(tmp_path / "aimless.toml"), [(0,)])
    builder = ModelBuilder("long", type="mdp")
    x = builder.int("x", 0, 99_999, initial=0)
    builder.edge("go", guard=x < 99_999, to={"x": x + 1})
    with pytest.raises(LimitReached, match="limit of 100 states"):
        solve(builder.task(goal="x == 99999"), [(0,)], budget=Budget(states=100))
    assert game.task.goal is not None


@needs_benchmarks
@pytest.mark.parametrize(
    "reference", [one for one in references() if one["states"] <= 5000], ids=lambda one: one["problem"]
)
def test_the_verdicts_on_published_problems_are_the_oracles(reference, tmp_path, capsys):
    problem, domain = str(FOND / reference["problem"]), str(FOND / reference["domain"])
    file = str(tmp_path / "certificate.json")
    code = run(["decide", problem, "--domain", domain, "--goal-reaching", "-o", file, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["figures"]["strong_cyclic"] is reference["strong_cyclic"]
    assert code == (0 if reference["strong_cyclic"] else 10)
    assert run(["certify", file, "--task", problem, "--domain", domain]) == 0
