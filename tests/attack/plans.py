"""Small plans over counters in narrow windows, beside 0, 2^53 or 2^63: every execution is tried out, from the file's text alone."""

from __future__ import annotations

import json
import operator
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from polvet.budget import Budget
from polvet.errors import InputError, Where
from polvet.policy.finite_memory import parse_fmp
from polvet.termination.decide import terminates

BASES = (0, 0, 0, 1, -3, 2**31 - 2, 2**53 - 2, 2**63 - 3, -(2**53) - 1, -(2**63))
COMPARE = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq, "!=": operator.ne
}  # fmt: skip
SECONDS = 0.4


@dataclass(frozen=True)
class Step:
    """One step of a plan: what a certificate says of it, and where it leads."""

    edge: int
    choice: int
    amounts: tuple[int, ...]
    target: tuple[str, tuple[int, ...]]


@dataclass(frozen=True)
class Plan:
    """An `fmp/1` document whose counters have both bounds, with a semantics of its own."""

    document: dict

    @cached_property
    def names(self):
        return [variable["name"] for variable in self.document["variables"]]

    @cached_property
    def windows(self):
        return [(int(variable["lower"]), int(variable["upper"])) for variable in self.document["variables"]]

    @cached_property
    def initial(self):
        first = self.document["initial"]
        states = first if isinstance(first, list) else [first]
        return [(s, v) for s in states for v in product(*(range(low, high + 1) for low, high in self.windows))]

    def amounts(self, choice, values):
        """Yield what the choice may add to the values."""
        ranges = []
        for name, value, (low, high) in zip(self.names, values, self.windows, strict=True):
            effect = choice.get("effects", {}).get(name, 0)
            least, most = (effect["lo"], effect["hi"]) if isinstance(effect, dict) else (effect, effect)
            if self.document.get("semantics") == "qualitative" and not isinstance(effect, dict) and int(effect):
                least, most = (1, None) if int(effect) > 0 else (None, -1)
            least = low - value if least is None else max(int(least), low - value)
            most = high - value if most is None else min(int(most), high - value)
            ranges.append(range(least, most + 1))
        return product(*ranges)

    def holds(self, atoms, values):
        here = dict(zip(self.names, values, strict=True))
        return all(COMPARE[sign](here[name], int(value)) for name, sign, value in atoms)

    def steps(self, configuration):
        state, values = configuration
        found = []
        for number, edge in enumerate(self.document["edges"]):
            if edge["from"] != state or not any(self.holds(c, values) for c in edge.get("guard_dnf", [[]])):
                continue
            for index, choice in enumerate(edge["choices"]):
                for amounts in self.amounts(choice, values):
                    after = tuple(a + b for a, b in zip(values, amounts, strict=True))
                    found.append(Step(number, index, amounts, (edge["to"], after)))
        return found

    @cached_property
    def graph(self):
        """The steps of every configuration that is reached."""
        found, pending = {}, list(self.initial)
        while pending:
            here = pending.pop()
            if here not in found:
                found[here] = self.steps(here)
                pending += [step.target for step in found[here]]
        return found

    @cached_property
    def is_endless(self):
        """Whether some execution never ends: what is left when configurations without a step are taken away again and again."""
        left = dict(self.graph)
        while True:
            ended = [here for here, steps in left.items() if not any(step.target in left for step in steps)]
            if not ended:
                return bool(left)
            for here in ended:
                del left[here]

    @cached_property
    def stops(self):
        return [here for here, steps in self.graph.items() if not steps]

    def written(self, step):
        """The step as certificates have it."""
        return {
            "edge": self.document["edges"][step.edge]["id"],
            "choice": step.choice,
            "effects": {name: number(a) for name, a in zip(self.names, step.amounts, strict=True)},
        }

    def valuation(self, values):
        return {name: number(value) for name, value in zip(self.names, values, strict=True)}

    def verdict(self):
        """What the engine says, None where it refuses or takes long."""
        try:
            return terminates(parse_fmp(self.document, Where("plan")), budget=Budget(SECONDS))
        except InputError:
            return None

    def save(self, folder):
        file = folder / "plan.json"
        file.write_text(json.dumps(self.document), encoding="utf-8")
        return file


def number(value):
    return str(value) if abs(value) > 2**53 else value


def random_plan(rng):
    """Return a plan of at most three counters and four control states."""
    count = rng.choice([1, 1, 2, 2, 3])
    windows = {}
    for k in range(count):
        low = rng.choice(BASES)
        windows[f"x{k}"] = low, low + rng.randint(0, 4 if count < 3 else 2)
    states = [f"q{k}" for k in range(rng.randint(1, 4))]
    initial = rng.sample(states, rng.choice([1, 1, 2]) if len(states) > 1 else 1)
    edges = []
    for k in range(rng.randint(1, 6)):
        source = initial[0] if k == 0 else rng.choice(states)
        edge = {"id": rng.choice([k, f"e{k}"]), "from": source, "to": rng.choice(states)}
        if rng.random() < 0.6:
            edge["guard_dnf"] = [
                [_atom(rng, windows) for _ in range(rng.randint(1, 2))] for _ in range(rng.choice([1, 1, 1, 2]))
            ]
        edge["choices"] = [{"effects": _effects(rng, windows)} for _ in range(rng.choice([1, 1, 1, 2]))]
        edges.append(edge)
    variables = [{"name": n, "lower": number(low), "upper": number(high)} for n, (low, high) in windows.items()]
    return Plan({
        "format": "fmp/1", "semantics": rng.choice(["deterministic", "deterministic", "qualitative", "mixed"]),
        "variables": variables, "control_states": states, "initial": rng.choice([initial, initial[0]]), "edges": edges,
    })  # fmt: skip


def _atom(rng, windows):
    name = rng.choice(list(windows))
    low, high = windows[name]
    return [name, rng.choice(list(COMPARE)), number(rng.randint(low - 1, high + 1))]


def _effects(rng, windows):
    found = {}
    for name in windows:
        match rng.randint(0, 6):
            case 0 | 1 | 2:
                found[name] = rng.choice([-1, 1, -1, 1, -2, 2, 3])
            case 3:
                low = rng.randint(-2, 2)
                found[name] = {"lo": rng.choice([None, low]), "hi": rng.choice([None, low, low + 1])}
            case 4:
                found[name] = number(rng.choice([-(2**53), 2**53 + 1, 2**63]))
    return found


def neighbour(rng, plan):
    """Return a plan that differs in one place: a comparison, an amount, a bound, an edge more or less."""
    document = deepcopy(plan.document)
    edges, edge = document["edges"], rng.choice(document["edges"])
    windows = dict(zip(plan.names, plan.windows, strict=True))
    match rng.randint(0, 6):
        case 0 if len(edges) > 1:
            edges.remove(edge)
        case 1:
            edge["guard_dnf"] = [[_atom(rng, windows)]]
        case 2 if "guard_dnf" in edge:
            atom = rng.choice(rng.choice(edge["guard_dnf"]))
            atom[1], atom[2] = rng.choice([(rng.choice(list(COMPARE)), atom[2]), (atom[1], number(int(atom[2]) + 1))])
        case 3:
            edge.pop("guard_dnf", None)
        case 4:
            rng.choice(document["variables"])[rng.choice(["lower", "upper"])] = None
        case _:
            rng.choice(edge["choices"])["effects"] = _effects(rng, windows)
    return Plan(document)
