"""False shields: bounds a hair below what allowed actions may cost, values that only seem attained, states and actions left out.

What is true is computed by trying out all schedulers of a few states, in fractions.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from polvet.check.checker import Subjects
from polvet.errors import InputError
from polvet.sources import TaskOptions, load_task
from tests.attack.worlds import op

BASES = (0, 0, 5, -7, 2**31, 2**39)
SHARES = ("0.5", "0.1", "0.3", "1e-17", "1e-300", "0.9999999999999999", "0.0", "1.0", "0.25")
HAIRS = (Fraction(1, 2), Fraction(1, 10**17), Fraction(1, 2**53), Fraction(1, 10**40), Fraction(1, 10**300))


@dataclass(frozen=True)
class Operator:
    """An operator of a state: its label (None: silent) and exact chances by the state after it."""

    label: str | None
    chances: dict[int, Fraction]


@dataclass(frozen=True)
class Small:
    """A model over one variable s from `base` on, the last value of which is `fail`, the one before perhaps the goal."""

    base: int
    operators: list[list[Operator]]  # by state
    goal: int | None
    starts: list[int]
    chain: bool

    @property
    def fail(self):
        return len(self.operators) - 1

    def choices(self, state, allowed, mixed=()):
        """The distributions the environment may take there: of allowed labels, of silent operators, of mixtures."""
        if state in (self.fail, self.goal):
            return []
        operators = self.operators[state]
        if self.chain and operators:
            return [_mixed([(o.chances, Fraction(1, len(operators))) for o in operators])]
        taken = [o.chances for o in operators if o.label is None or o.label in allowed]
        for weights in mixed:
            taken.append(_mixed([(o.chances, weights[o.label]) for o in operators if o.label in weights]))
        return taken

    def worst(self, choices):
        """The greatest chance of failing from each state, over all memoryless schedulers."""
        best = [Fraction(0)] * len(self.operators)
        for picked in product(*(range(max(1, len(mine))) for mine in choices)):
            chain = [mine[k] if mine else {} for mine, k in zip(choices, picked, strict=True)]
            best = [max(a, b) for a, b in zip(best, self._reach(chain), strict=True)]
        return best

    def _reach(self, chain):
        """The chance of reaching `fail` from each state of a Markov chain, by elimination."""
        near, grows = {self.fail}, True
        while grows:
            more = {s for s, row in enumerate(chain) if s not in near and any(p and t in near for t, p in row.items())}
            near |= more
            grows = bool(more)
        unknown = sorted(near - {self.fail})
        place = {state: k for k, state in enumerate(unknown)}
        rows = []
        for state in unknown:
            row = [Fraction(0)] * (len(unknown) + 1)
            row[place[state]] += 1
            for target, chance in chain[state].items():
                if target == self.fail:
                    row[-1] += chance
                elif target in place:
                    row[place[target]] -= chance
            rows.append(row)
        for k in range(len(rows)):
            pivot = next(i for i in range(k, len(rows)) if rows[i][k])
            rows[k], rows[pivot] = rows[pivot], rows[k]
            rows[k] = [x / rows[k][k] for x in rows[k]]
            for i in range(len(rows)):
                if i != k and rows[i][k]:
                    factor = rows[i][k]
                    rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
        found = [Fraction(0)] * len(chain)
        found[self.fail] = Fraction(1)
        for state, row in zip(unknown, rows, strict=True):
            found[state] = row[-1]
        return found


def _mixed(parts):
    total = {}
    for chances, weight in parts:
        for target, chance in chances.items():
            total[target] = total.get(target, Fraction(0)) + weight * chance
    return {target: chance for target, chance in total.items() if chance}


def _random(rng):
    """A model as data and as JANI."""
    size, base = rng.randint(3, 5), rng.choice(BASES)
    chain = rng.random() < 0.2
    labels = ["a", "b", "c"][: rng.randint(1, 3)]
    operators, edges = [[] for _ in range(size)], []
    for state in range(size):
        for label in rng.sample([*labels, None], rng.randint(0, min(2, len(labels)))) + rng.choice([[], labels[:1]]):
            parts = _shares(rng, base + state)
            targets = [rng.randrange(size) for _ in parts]
            chances = {}
            for target, (_, chance) in zip(targets, parts, strict=True):
                chances[target] = chances.get(target, Fraction(0)) + chance
            operators[state].append(Operator(label, {t: c for t, c in chances.items() if c}))
            places = [
                {"location": "l", "probability": {"exp": e}, "assignments": [{"ref": "s", "value": base + t}]}
                for t, (e, _) in zip(targets, parts, strict=True)
            ]
            edge = {"location": "l", "guard": {"exp": op("=", "s", base + state)}, "destinations": places}
            edges.append(edge if label is None else {**edge, "action": label})
    kind = {"kind": "bounded", "base": "int", "lower-bound": base, "upper-bound": base + size - 1}
    starts = sorted(rng.sample(range(size - 1), rng.choice([1, 1, 2])))
    document = {
        "jani-version": 1, "name": "attack", "type": "dtmc" if chain else "mdp",
        "actions": [{"name": label} for label in labels],
        "variables": [{"name": "s", "type": kind, "initial-value": base + starts[0]}],
        "automata": [{"name": "one", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": edges}],
        "system": {"elements": [{"automaton": "one"}], "syncs": [{"synchronise": [x], "result": x} for x in labels]},
    }  # fmt: skip
    goal = size - 2 if rng.random() < 0.3 and size - 2 not in starts else None
    return Small(base, operators, goal, starts, chain), document


def _shares(rng, s):
    """Branches as (expression, exact chance): written as decimals, as quotients, or computed from s."""
    text = rng.choice(SHARES)
    share = Fraction(text)
    left = float(text)
    match rng.randint(0, 5):
        case 0:
            return [(1.0, Fraction(1))]
        case 1:
            k = rng.choice([3, 7, 2**53 + 1])
            return [(op("/", 1, k), Fraction(1, k)), (op("/", k - 1, k), Fraction(k - 1, k))]
        case 2:  # nothing at s, though doubles may see something, or the other way round
            exact = share * (s - s) + Fraction("1e-18")
            computed = op("+", op("*", left, op("-", "s", s)), 1e-18)
            return [(computed, exact), (op("-", 1, computed), 1 - exact)]
        case 3:
            small = Fraction("1e-17")
            computed = op("-", 1, op("-", 1, op("*", 1e-17, op("+", 1, op("-", "s", s)))))
            return [(computed, small), (op("-", 1, computed), 1 - small)]
        case _:
            return [(left, share), (op("-", 1, left), 1 - share)]


def small_task(rng, folder):
    """A model in files; None where it is refused."""
    small, document = _random(rng)
    (folder / "small.jani").write_text(json.dumps(document), encoding="utf-8")
    file = folder / "small.toml"
    lines = ['model = "small.jani"', f'fail = "s == {small.base + small.fail}"']
    if small.goal is not None:
        lines.append(f'goal = "s == {small.base + small.goal}"')
    if len(small.starts) > 1 or rng.random() < 0.5:
        lines.append(f'start = "{" || ".join(f"s == {small.base + state}" for state in small.starts)}"')
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    try:
        return small, file, load_task(file, TaskOptions()).sha256
    except InputError:
        return None


def false_claims(rng, folder):
    """Yield (certificate, subjects, context of the check) for claims that are false."""
    if (found := small_task(rng, folder)) is None:
        return
    small, file, digest = found
    for _ in range(4):
        for claim in _claims(rng, small, _Shield(rng, small)):
            yield {"kind": "permissive", "task_sha256": digest, **claim}, Subjects(file), nullcontext()


def true_claims(rng, folder):
    """Yield (certificate, subjects) for a claim that is true."""
    if (found := small_task(rng, folder)) is None:
        return
    small, file, digest = found
    shield = _Shield(rng, small)
    claim = shield.claim(max(shield.true[state] for state in small.starts), shield.true, "exact")
    yield {"kind": "permissive", "task_sha256": digest, **claim}, Subjects(file)


class _Shield:
    """Allowed labels and mixtures, drawn by chance, and the exact worst case under them."""

    def __init__(self, rng, small):
        self.small, self.allowed, self.mixed = small, [], []
        for state, operators in enumerate(small.operators):
            labels = sorted({o.label for o in operators if o.label is not None})
            ended = state in (small.fail, small.goal) or not operators
            silent = not labels or small.chain
            self.allowed.append([] if ended else [None] if silent else rng.sample(labels, rng.randint(1, len(labels))))
            one_each = len(labels) == len(operators) and len(labels) > 1
            heavy = Fraction(rng.choice(["1/2", "1/10", "1e-17", "1/3"]))
            weights = {labels[0]: heavy, labels[1]: 1 - heavy} if one_each and not ended and not silent else None
            self.mixed.append([weights] if weights and rng.random() < 0.3 else [])
        self.choices = [
            small.choices(s, labels, more)
            for s, (labels, more) in enumerate(zip(self.allowed, self.mixed, strict=True))
        ]
        self.true = small.worst(self.choices)

    def claim(self, bound, values, kind, states=None):
        rows = []
        for state in range(len(values)) if states is None else states:
            row = {"state": {"s": self.small.base + state}, "allowed": self.allowed[state], "value": str(values[state])}
            if self.mixed[state]:
                row["mixed"] = [{label: str(weight) for label, weight in one.items()} for one in self.mixed[state]]
            rows.append(row)
        return {"bound": str(bound), "values": kind, "states": rows}


def _claims(rng, small, shield):
    choices, true, claim = shield.choices, shield.true, shield.claim
    worst = max(true[state] for state in small.starts)
    kind = rng.choice(["exact", "upper-bounds"])
    if worst:
        below = worst * (1 - rng.choice(HAIRS))
        yield claim(below, [min(v, below) if s != small.fail else v for s, v in enumerate(true)], kind)
        yield claim(below, true, kind)
        guess = [Fraction(int(s == small.fail)) for s in range(len(true))]
        for _ in range(rng.randint(0, 12)):  # from below, as value iteration has it
            guess = [
                max((sum(p * guess[t] for t, p in row.items()) for row in mine), default=guess[s])
                for s, mine in enumerate(choices)
            ]
        if max(guess[s] for s in small.starts) < worst:
            yield claim(max(guess[s] for s in small.starts), guess, kind)
        rounded = [Fraction(f"{float(v):.15f}") for v in true]
        if max(rounded[s] for s in small.starts) < worst and all(0 <= v <= 1 for v in rounded):
            yield claim(max(rounded[s] for s in small.starts), rounded, kind)
    # Greater than true, and as if attained: loops keep any value they are given.
    above = [
        Fraction(1) if s == small.fail else max(v, rng.choice([v, Fraction(1), v + (1 - v) / 2]))
        for s, v in enumerate(true)
    ]
    for _ in range(len(true)):
        above = [
            max([above[s], *(sum(p * above[t] for t, p in row.items()) for row in mine)]) if mine else true[s]
            for s, mine in enumerate(choices)
        ]
    if any(above[s] != true[s] for s in small.starts):
        yield claim(Fraction(1), above, "exact")
    # A state that may be reached is missing.
    reached, pending = set(small.starts), list(small.starts)
    while pending:
        for target in {t for row in choices[pending.pop()] for t in row} - reached:
            reached.add(target)
            pending.append(target)
    missing = rng.choice(sorted(reached))
    yield claim(max(worst, Fraction(1, 2)), true, kind, sorted(set(range(len(true))) - {missing}))
    if worst:
        twice = claim(worst / 2, true, kind)
        twice["states"] += [{**row, "value": "0"} for row in twice["states"][:-1]]
        yield twice
