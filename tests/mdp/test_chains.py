"""In a Markov chain nobody chooses: every command means the draw among the enabled operators, and agrees with elimination in fractions."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import pytest

import polvet
from polvet.cli.app import run
from tests.mdp.brute import chain_reach

TWO = """dtmc
module one
  x : [0..2] init 0;
  [a] x=0 -> (x'=1);
  [b] x=0 -> (x'=2);
endmodule
"""


@dataclass(frozen=True)
class Drawn:
    """A random chain of two modules that move together on `s`: its text, its rows over states (x, y), and its numbers."""

    text: str
    rows: list
    last: int
    fail: list
    goal: list

    @property
    def until_fail(self):
        return f"P=? [ (x<{self.last} | y={self.last}) U (x={self.last} & y={self.last}) ]"

    def chance(self, of):
        """The probability that runs, which end in both, come to these states."""
        rows = [[] if a or b else row for a, b, row in zip(self.fail, self.goal, self.rows, strict=True)]
        return chain_reach(rows, [True] * len(rows), of)[0]


def drawn(rng):
    size = rng.choice([2, 3])
    commands = {
        name: [
            (rng.choice(["", f"own_{name}", "s", "s"]), rng.randrange(size), rng.random() < 0.3, branches(rng, size))
            for _ in range(rng.randint(2, 5))
        ]
        for name in "xy"
    }
    for mine in commands.values():  # who never moves on `s` would not be asked about it
        mine.append(("s", rng.randrange(size), False, branches(rng, size)))
    modules = [
        f"module m{name}\n  {name} : [0..{size - 1}] init 0;\n"
        + "".join(f"  {written(name, *command)}\n" for command in mine)
        + "endmodule\n"
        for name, mine in commands.items()
    ]
    states = list(product(range(size), repeat=2))
    number = {state: k for k, state in enumerate(states)}
    rows = []
    for state in states:
        enabled = [
            [
                (label, parts)
                for label, value, upwards, parts in commands[name]
                if here == value or (upwards and here > value)
            ]
            for name, here in zip("xy", state, strict=True)
        ]
        moves = [[(share, (to, state[1])) for share, to in parts] for label, parts in enabled[0] if label != "s"]
        moves += [[(share, (state[0], to)) for share, to in parts] for label, parts in enabled[1] if label != "s"]
        moves += [
            [(p * q, (i, j)) for p, i in one for q, j in other]
            for (label, one), (same, other) in product(*enabled)
            if label == same == "s"
        ]
        row = {}
        for share, target in (part for move in moves for part in move):
            row[number[target]] = row.get(number[target], Fraction(0)) + share / len(moves)
        rows.append(sorted(row.items()))
    fail = [state == (size - 1, size - 1) for state in states]
    goal = [state[0] == size - 1 and not end for state, end in zip(states, fail, strict=True)]
    return Drawn("dtmc\n" + "".join(modules), rows, size - 1, fail, goal)


def branches(rng, size):
    weights = [rng.choice([1, 1, 2, 3]) for _ in range(rng.choice([1, 1, 2]))]
    return [(Fraction(w, sum(weights)), rng.randrange(size)) for w in weights]


def written(name, label, value, upwards, parts):
    shares = " + ".join(f"{share}:({name}'={to})" for share, to in parts)
    return f"[{label}] {name}{'>=' if upwards else '='}{value} -> {shares};"


def loaded(chain, folder):
    (folder / "chain.prism").write_text(chain.text)
    fail, goal = (f"x={chain.last} & y{sign}{chain.last}" for sign in "=<")
    return polvet.load(folder / "chain.prism", fail=fail, goal=goal)


def test_every_command_means_the_chain_that_elimination_in_fractions_solves(tmp_path):
    start, met = {"x": 0, "y": 0}, set()
    for seed in range(120):
        chain = drawn(random.Random(seed))
        task, risk, hope = loaded(chain, tmp_path), chain.chance(chain.fail), chain.chance(chain.goal)
        for sharpen in (False, True):
            decided = task.decide(start, sharpen=sharpen)
            assert decided.verdict is (polvet.Verdict.UNSAFE if risk else polvet.Verdict.SAFE), chain.text
            assert decided.checked, chain.text
            assert polvet.certify(decided.certificate, task).accepted
        strong = task.decide(start, goal_reaching=True)
        assert strong.verdict is (polvet.Verdict.STRONG_CYCLIC if hope == 1 else polvet.Verdict.NOT_STRONG_CYCLIC)
        assert strong.checked, chain.text
        for exact in (True, False):
            value = task.check(chain.until_fail, exact=exact)
            assert value.exact == risk if exact else value.lower <= risk <= value.upper, chain.text
        for bound in (risk, risk * Fraction(9, 10)):
            assert task.decide(start, bound=bound).verdict.value == ("safe" if bound == risk else "unsafe")
            shield = task.permit(bound)
            assert shield.checked, chain.text
            assert shield.verdict.value == ("permitted" if bound == risk else "impossible")
            if bound == risk:
                assert polvet.certify(shield.certificate, task).accepted
                break  # nothing is below 0
        met.add((risk == 0, risk == 1, hope == 0, hope == 1))
    assert len(met) >= 4


@pytest.mark.peer
def test_values_are_those_of_storm(tmp_path):
    stormpy = pytest.importorskip("stormpy")
    compared = 0
    for seed in range(1000, 1300):
        chain = drawn(random.Random(seed))
        task, program = loaded(chain, tmp_path), stormpy.parse_prism_program(str(tmp_path / "chain.prism"))
        (wanted,) = stormpy.parse_properties(chain.until_fail, program)
        model = stormpy.build_model(program, [wanted])
        theirs = stormpy.model_checking(model, wanted).get_value(model.initial_states[0])
        assert task.check(chain.until_fail).value == pytest.approx(theirs, abs=1e-6), chain.text
        compared += 0 < theirs < 1
    assert compared > 80


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.prism").write_text(TWO)
    rules = {"format": "rules/1", "rules": [{"when": "true", "action": "b"}]}
    (tmp_path / "b.json").write_text(json.dumps(rules))


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("decide two.prism --fail x=1 --certificates .", 10, "unsafe"),
        ("decide two.prism --fail x=1 --sharpen --certificates .", 10, "unsafe"),
        ("decide two.prism --fail x=1 --goal x=2 --goal-reaching --certificates .", 10, "not-strong-cyclic"),
        ("decide two.prism --goal x>0 --goal-reaching --certificates .", 0, "strong-cyclic"),
        ("permit two.prism --fail x=1 --bound 0.4", 10, "minimum   0.5 = 1/2"),
        ("permit two.prism --fail x=1 --bound 0.5", 0, "permitted"),
    ],
)
def test_two_commands_of_a_state_are_drawn(two, command, code, says, tmp_path, capsys):
    assert run(command.split()) == code
    assert says in capsys.readouterr().out
    options = [word for word in command.split()[2:] if word not in ("--sharpen", "--goal-reaching")]
    for certificate in [one for one in tmp_path.glob("*.json") if one.name != "b.json"]:
        assert (
            run(["certify", str(certificate), "--task", "two.prism", *options[: options.index("--certificates")]]) == 0
        )


@pytest.mark.parametrize(
    "command",
    [
        *("verify", "evaluate", "simulate", "fuzz", "faults", "repair", "debug", "gate"),
        *("verify --max-risk 0.9", "faults --kind goal --goal x=2"),
    ],
)
def test_where_nobody_chooses_a_policy_is_refused(two, command, capsys):
    verb, *options = command.split()
    options += ["-o", "out"] if verb in ("fuzz", "repair", "debug") else []
    options += ["--faults", "b.json"] if verb == "repair" else []
    assert run([verb, "two.prism", "b.json", "--fail", "x=1", *options]) == 30
    assert "Markov chain (dtmc)" in capsys.readouterr().err


def test_a_policy_is_not_trained_where_nobody_chooses(two, capsys):
    assert run(["train", "two.prism", "--fail", "x=1", "--kind", "mlp", "-o", "out.onnx"]) == 30
    assert "Markov chain (dtmc)" in capsys.readouterr().err
