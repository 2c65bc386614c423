"""Tiny worlds as data: their files, and all that is true of them by enumeration, in fractions; nothing here asks polvet.

A world has two integers, s and t, that begin at large numbers; operators are listed state by state, some of them silent, several of one
label, some with an outcome beyond the bounds (an error of the model); it may be a Markov chain, and its start condition may have no
solution. A state is a pair of places, (0, 0) where s and t are least.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product

S_LEAST = (0, 0, 0, -2, 2**31 - 2, 2**53 - 1, 2**62, 2**63 - 8, -(2**63) + 2)
T_LEAST = (0, 0, 5, 2**31 - 1, 2**53)
SHARES = ("0.5", "0.1", "0.3", "1e-17", "0.9999999999999999", "0.25")
MOST_POLICIES = 200
"""Choosers that are tried out to find what is least risked."""
SIGNS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@dataclass(frozen=True)
class Operator:
    """A label (None: silent), and chances with the place after it; a place outside the world is an error of the model."""

    label: str | None
    branches: tuple[tuple[str, Fraction, tuple[int, int]], ...]


@dataclass(frozen=True)
class Table:
    """A policy: scores of its outputs by state, or a default."""

    outputs: tuple[str, ...]
    rows: dict[tuple[int, int], tuple[int, ...]]
    default: str
    raw: bool
    reads_s: bool

    def scores(self, state):
        """The score of each output."""
        key = state if self.reads_s else (0, state[1])
        return self.rows.get(key) or tuple(int(label == self.default) for label in self.outputs)

    def choose(self, state, applicable):
        """The label taken, None where it is stuck: the best output among the applicable ones (raw: of all), the first of equals."""
        scores = self.scores(state)
        asked = [k for k, label in enumerate(self.outputs) if self.raw or label in applicable]
        best = max(asked, key=lambda k: (scores[k], -k), default=None)
        return None if best is None or self.outputs[best] not in applicable else self.outputs[best]


Dist = dict  # from states to chances


@dataclass(frozen=True)
class Tiny:
    """The world, its conditions as (terms of them, text), and a policy."""

    least: tuple[int, int]
    size: tuple[int, int]
    operators: dict[tuple[int, int], list[Operator]]
    chain: bool
    labels: tuple[str, ...]
    conditions: dict[str, list]
    policy: Table
    memo: dict = field(default_factory=dict, compare=False)

    # -- what holds

    @cached_property
    def states(self):
        return list(product(range(self.size[0]), range(self.size[1])))

    def value(self, state):
        return self.least[0] + state[0], self.least[1] + state[1]

    def place(self, named):
        """The state with these values by name; None where there is none."""
        try:
            state = int(named["s"]) - self.least[0], int(named["t"]) - self.least[1]
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return state if state in self.operators else None

    def holds(self, name, state):
        """Whether a condition holds: a disjunction of conjunctions of comparisons (sum over s and t, sign, number)."""
        s, t = self.value(state)
        cases = self.conditions.get(name, [])
        return any(all(SIGNS[sign](a * s + b * t, number) for a, b, sign, number in case) for case in cases)

    @cached_property
    def starts(self):
        if "start" not in self.conditions:
            return [(0, 0)]
        return [state for state in self.states if self.holds("start", state)]

    def fails(self, state):
        return self.holds("fail", state)

    def ends_well(self, state):
        return self.holds("goal", state) and not self.fails(state)

    def runs_on(self, state):
        return not self.fails(state) and not self.ends_well(state) and bool(self.operators[state])

    def errs(self, state):
        """Whether some enabled operator of a state in which a run goes on leaves the bounds."""
        return self.runs_on(state) and any(
            to not in self.operators for o in self.operators[state] for _, _, to in o.branches
        )

    # -- who may choose what

    def distribution(self, operator):
        found: Dist = {}
        for _, chance, to in operator.branches:
            found[to] = found.get(to, Fraction(0)) + chance
        return {to: chance for to, chance in found.items() if chance}

    def mixed(self, operators):
        total: Dist = {}
        for operator in operators:
            for to, chance in self.distribution(operator).items():
                total[to] = total.get(to, Fraction(0)) + chance / len(operators)
        return total

    def actions(self, state):
        """By label what the environment may do; one pseudo-action where nobody chooses; nothing where runs end."""
        if not self.runs_on(state):
            return {}
        mine = self.operators[state]
        if self.chain:
            return {None: [self.mixed(mine)]}
        silent = [self.distribution(o) for o in mine if o.label is None]
        labels = dict.fromkeys(o.label for o in mine if o.label is not None)
        if not labels:
            return {None: silent}
        return {label: [self.distribution(o) for o in mine if o.label == label] + silent for label in labels}

    def followed(self, state):
        """What may happen under the policy: nothing where runs end, 'stuck' where it is."""
        if not self.runs_on(state):
            return []
        mine = self.operators[state]
        if self.chain:  # nobody chooses
            return [self.mixed(mine)]
        if labels := {o.label for o in mine if o.label is not None}:
            label = self.policy.choose(state, labels)
            if label is None:
                return "stuck"
            mine = [o for o in mine if o.label in (None, label)]
        return [self.distribution(o) for o in mine]

    # -- sets of states

    def _least_set(self, more):
        found: set = set()
        while True:
            new = {state for state in self.states if state not in found and more(state, found)}
            if not new:
                return found
            found |= new

    @cached_property
    def safe(self):
        """From where some policy surely avoids `fail`, and every error of the model."""
        lost = self._least_set(
            lambda s, lost: (
                self.fails(s)
                or self.errs(s)
                or (
                    self.runs_on(s)
                    and all(any(to in lost for d in mine for to in d) for mine in self.actions(s).values())
                )
            )
        )
        return set(self.states) - lost

    @cached_property
    def unsafe(self):
        """From where no policy avoids `fail`; an error of the model is not one."""
        return self._least_set(
            lambda s, lost: (
                self.fails(s)
                or (
                    self.runs_on(s)
                    and not self.errs(s)
                    and all(any(to in lost for d in mine for to in d) for mine in self.actions(s).values())
                )
            )
        )

    def _won(self, errors_win):
        won = set(self.states)
        while True:
            near = self._least_set(
                lambda s, near, won=won: (
                    s in won
                    and (
                        self.ends_well(s)
                        or (self.errs(s) and errors_win)
                        or (
                            not self.errs(s)
                            and any(
                                all(to in won for d in mine for to in d) and any(to in near for d in mine for to in d)
                                for mine in self.actions(s).values()
                            )
                        )
                    )
                )
            )
            if near == won:
                return won
            won = near

    @cached_property
    def won(self):
        """From where some policy keeps the goal in reach whatever happens."""
        return self._won(errors_win=False)

    @cached_property
    def lost(self):
        return set(self.states) - self._won(errors_win=True)

    def reached(self, starts, *, follow=True):
        seen, pending = set(starts), list(starts)
        while pending:
            state = pending.pop()
            rows = self.followed(state) if follow else [d for mine in self.actions(state).values() for d in mine]
            for to in {to for row in ([] if rows == "stuck" else rows) for to in row} & self.operators.keys():
                if to not in seen:
                    seen.add(to)
                    pending.append(to)
        return seen

    def policy_ends(self, starts):
        """What runs of the policy from there may come to: fail, error, stuck, deadlock, loop (for ever, whatever happens), trap
        (for ever, if the environment wants it).
        """
        reached, found = self.reached(starts), set()
        rows = {state: self.followed(state) for state in reached}
        ends = {state for state in reached if rows[state] in ([], "stuck")}
        for state in reached:
            found |= {"fail"} if self.fails(state) else set()
            found |= {"error"} if self.errs(state) else set()
            found |= {"stuck"} if rows[state] == "stuck" else set()
            if rows[state] == [] and not self.fails(state) and not self.ends_well(state):
                found.add("deadlock")
        near = self._least_set(
            lambda s, near: (
                s in reached and (s in ends or self.errs(s) or any(to in near for row in rows[s] for to in row))
            )
        )
        found |= {"loop"} if near < reached else set()
        away = self._least_set(
            lambda s, away: (
                s in reached
                and (s in ends or all(any(to in away or to not in reached for to in row) for row in rows[s]))
            )
        )
        found |= {"trap"} if away < reached else set()
        return found

    # -- probabilities

    def greatest(self, rows, *, error):
        """The greatest chance of `fail` from each state, where `rows` are the environment's and errors count as said."""
        value = dict.fromkeys(self.states, Fraction(0)) | {s: Fraction(1) for s in self.states if self.fails(s)}
        fixed = {s: value[s] for s in self.states if self.fails(s) or not rows[s]}
        fixed |= {s: Fraction(error) for s in self.states if self.errs(s)}
        positive = {s for s, v in fixed.items() if v}
        chosen: dict = {}
        grows = True
        while grows:
            grows = False
            for s in self.states:
                mine = [] if s in fixed or s in chosen else rows[s]
                if row := next((r for r in mine if any(to in positive or to in chosen for to in r)), None):
                    chosen[s], grows = row, True
        while True:
            value = self._solve(fixed, chosen)
            better = {}
            for s in chosen:
                best = max(rows[s], key=lambda row: _mean(row, value))
                if _mean(best, value) > value[s]:
                    better[s] = best
            if not better:
                return value
            chosen |= better

    def _solve(self, fixed, chosen):
        """The values where the chosen rows are taken: states without one, and those that nothing comes from, are worth 0."""
        near = {s for s, v in fixed.items() if v}
        grows = True
        while grows:
            more = {s for s, row in chosen.items() if s not in near and any(to in near for to in row)}
            near |= more
            grows = bool(more)
        unknown = sorted(s for s in chosen if s in near)
        column = {state: k for k, state in enumerate(unknown)}
        matrix = []
        for state in unknown:
            line = [Fraction(0)] * (len(unknown) + 1)
            line[column[state]] += 1
            for to, chance in chosen[state].items():
                if to in column:
                    line[column[to]] -= chance
                else:
                    line[-1] += chance * fixed.get(to, 0)
            matrix.append(line)
        for k in range(len(matrix)):
            pivot = next(i for i in range(k, len(matrix)) if matrix[i][k])
            matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
            matrix[k] = [x / matrix[k][k] for x in matrix[k]]
            for i in range(len(matrix)):
                if i != k and matrix[i][k]:
                    matrix[i] = [a - matrix[i][k] * b for a, b in zip(matrix[i], matrix[k], strict=True)]
        found = {s: fixed.get(s, Fraction(0)) for s in self.states}
        return found | {state: line[-1] for state, line in zip(unknown, matrix, strict=True)}

    def policy_risk(self, *, error):
        """The greatest chance that the policy fails, from each state."""
        rows = {s: [] if (mine := self.followed(s)) == "stuck" else mine for s in self.states}
        return self.greatest(rows, error=error)

    def least_risk(self, *, error):
        """The least chance of failing from each state, over choosers against the worst environment; None where they are too many."""
        actions = {s: self.actions(s) for s in self.states}
        open_ = [s for s in self.states if len(actions[s]) > 1 and not self.errs(s)]
        count = 1
        for s in open_:
            count *= len(actions[s])
        if count > MOST_POLICIES:
            return None
        best = None
        for picked in product(*(actions[s] for s in open_)):
            taken = dict(zip(open_, picked, strict=True))
            rows = {s: actions[s][taken[s]] if s in taken else next(iter(actions[s].values()), []) for s in self.states}
            value = self.greatest(rows, error=error)
            best = value if best is None else {s: min(best[s], value[s]) for s in self.states}
        return best

    def any_risk(self, *, least):
        """The greatest or least chance of reaching `fail` where whoever there is chooses among all operators; None: too many."""
        rows = {s: [self.distribution(o) for o in mine] for s, mine in self.operators.items()}
        if self.chain:
            rows = {s: [self.mixed(mine)] if mine else [] for s, mine in self.operators.items()}
        if not least:
            return self.greatest(rows, error=0)
        count = 1
        for mine in rows.values():
            count *= max(1, len(mine))
        if count > MOST_POLICIES:
            return None
        values = [
            self.greatest({s: [] if row is None else [row] for s, row in zip(rows, picked, strict=True)}, error=0)
            for picked in product(*(mine or [None] for mine in rows.values()))
        ]
        return {s: min(value[s] for value in values) for s in self.states}

    def allowed_risk(self, allowed):
        """The greatest chance of failing where these labels may be taken in each state; None where one is not applicable."""
        rows = {}
        for s in self.states:
            actions = self.actions(s)
            mine = allowed.get(s)
            if mine is None:
                rows[s] = [] if self.errs(s) else [d for one in actions.values() for d in one]
                continue
            if any(label not in actions for label in mine) or bool(mine) != bool(actions):
                return None
            rows[s] = [d for label in mine for d in actions[label]]
        return self.greatest(rows, error=1)

    # -- files

    def text(self, name):
        def term(a, b):
            parts = [f"{'' if abs(k) == 1 else f'{abs(k)} * '}{x}" for k, x in ((a, "s"), (b, "t")) if k]
            signs = ["-" if k < 0 else "+" for k in (a, b) if k]
            return ("-" if signs[0] == "-" else "") + parts[0] + (f" {signs[1]} {parts[1]}" if len(parts) > 1 else "")

        def case(parts):
            return " && ".join(f"({term(a, b)} {sign} {number})" for a, b, sign, number in parts) or "true"

        return " || ".join(f"({case(parts)})" for parts in self.conditions[name]) or "false"

    def save(self, folder, name="tiny"):
        """Write the model, the task and the policy; return the last two."""
        edges = []
        for state, operators in self.operators.items():
            here = self.value(state)
            guard = _op("∧", _op("=", "s", here[0]), _op("=", "t", here[1]))
            for k, operator in enumerate(operators):
                places = []
                for text, _, to in operator.branches:
                    there = self.value(to)
                    values = []
                    for variable, old, new in zip("st", here, there, strict=True):
                        far = old != new and (k + new) % 2 == 0
                        value = _op("+" if new > old else "-", variable, abs(new - old)) if far else new
                        values.append({"ref": variable, "value": value, "index": 0})
                    places.append({"location": "l", "probability": {"exp": float(text)}, "assignments": values})
                edge = {"location": "l", "guard": {"exp": guard}, "destinations": places}
                edges.append(edge if operator.label is None else {**edge, "action": operator.label})
        kinds = [
            {"kind": "bounded", "base": "int", "lower-bound": low, "upper-bound": low + size - 1}
            for low, size in zip(self.least, self.size, strict=True)
        ]
        variables = [
            {"name": n, "type": kind, "initial-value": low}
            for n, kind, low in zip("st", kinds, self.least, strict=True)
        ]
        model = {
            "jani-version": 1, "name": name, "type": "dtmc" if self.chain else "mdp",
            "actions": [{"name": label} for label in self.labels], "variables": variables,
            "automata": [{"name": "one", "locations": [{"name": "l"}], "initial-locations": ["l"], "edges": edges}],
            "system": {"elements": [{"automaton": "one"}], "syncs": [{"synchronise": [x], "result": x} for x in self.labels]},
        }  # fmt: skip
        task, policy = folder / f"{name}.toml", folder / f"{name}-policy.json"
        (folder / f"{name}.jani").write_text(json.dumps(model), encoding="utf-8")
        lines = [f'model = "{name}.jani"', *(f'{word} = "{self.text(word)}"' for word in self.conditions)]
        mode = "raw" if self.policy.raw else "filtered"
        task.write_text("\n".join([*lines, "[policy]", f'mode = "{mode}"']) + "\n", encoding="utf-8")
        inputs = ("s", "t") if self.policy.reads_s else ("t",)
        rows = [
            {"state": dict(zip(("s", "t"), self.value(state), strict=True)) if self.policy.reads_s else {"t": self.value(state)[1]},
             "scores": list(scores)}
            for state, scores in self.policy.rows.items()
        ]  # fmt: skip
        document = {"format": "table/1", "inputs": list(inputs), "outputs": list(self.policy.outputs), "rows": rows}
        policy.write_text(json.dumps({**document, "default": self.policy.default}), encoding="utf-8")
        return task, policy


def _op(operator, left, right):
    return {"op": operator, "left": left, "right": right}


def _mean(row, value):
    return sum((chance * value[to] for to, chance in row.items() if to in value), Fraction(0))


# -- drawing them


def random_tiny(rng):
    """Return a random world with a random policy."""
    size = rng.randint(2, 4), rng.choice([1, 1, 2])
    least = rng.choice(S_LEAST), rng.choice(T_LEAST)
    if rng.random() < 0.2:  # two numbers that doubles do not tell apart
        far = rng.choice([2**53, 2**53, 2**59])
        least = far + rng.randint(-1, 1), far + rng.randint(-1, 1)
    chain = rng.random() < 0.2
    labels = ("a", "b", "c")[: rng.randint(1, 3)]
    states = list(product(range(size[0]), range(size[1])))
    operators = {state: _operators(rng, state, size, labels) for state in states}
    tiny = Tiny(least, size, operators, chain, labels, {}, _policy(rng, least, size, labels))
    tiny.conditions.update(_conditions(rng, tiny))
    return tiny


def _operators(rng, state, size, labels):
    found = []
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        label = rng.choice([*labels, *labels, None])
        if rng.random() < 0.55:
            parts = [("1.0", Fraction(1))]
        else:
            share = rng.choice(SHARES)
            parts = [(share, Fraction(share)), (str(1 - Fraction(share)), 1 - Fraction(share))]
            other = f"{1 - float(share)!r}"
            if Fraction(other) != parts[1][1]:  # written so that the two sum to 1
                parts = [("0.5", Fraction(1, 2)), ("0.5", Fraction(1, 2))]
            else:
                parts[1] = other, parts[1][1]
        branches = []
        for text, chance in parts:
            to = rng.randrange(size[0]), rng.randrange(size[1])
            if rng.random() < 0.04:
                to = rng.choice([-1, size[0]]), to[1]
            branches.append((text, chance, to))
        found.append(Operator(label, tuple(branches)))
    return found


def _policy(rng, least, size, labels):
    outputs = list(labels)
    rng.shuffle(outputs)
    if rng.random() < 0.15 and len(outputs) > 1:
        outputs.pop()
    near = max(abs(low) for low in least) < 2**20  # float32 tells their numbers apart
    reads_s = near and rng.random() < 0.8
    rows = {}
    if abs(least[1]) < 2**20:
        for state in product(range(size[0]) if reads_s else [0], range(size[1])):
            if rng.random() < 0.9:
                rows[state] = tuple(rng.randint(0, 2) for _ in outputs)
    return Table(tuple(outputs), rows, rng.choice(outputs), rng.random() < 0.2, reads_s)


def _conditions(rng, tiny):
    """Conditions as disjunctions; sums of both only where they stay within 64 bits."""
    s, t = tiny.least
    small = abs(s) < 2**60 and abs(t) < 2**60
    last = tiny.size[0] - 1
    found = {"fail": [[(1, 0, rng.choice(["=", ">="]), s + last)]]}
    if tiny.size[1] > 1 and rng.random() < 0.3:
        found["fail"] = [[(1, 0, "=", s + last), (0, 1, "=", t + rng.randint(0, 1))]]
    if rng.random() < 0.5:
        found["goal"] = [[(1, 0, "=", s + max(0, last - 1))]]
    pick = rng.random()
    if pick < 0.25:
        return found
    if pick < 0.55:
        some = rng.sample(tiny.states, rng.randint(1, min(3, len(tiny.states))))
        found["start"] = [[(1, 0, "=", s + i), (0, 1, "=", t + j)] for i, j in sorted(some)]
    elif pick < 0.65:
        found["start"] = [[(1, 0, rng.choice(list(SIGNS)), s + rng.randint(0, last))]]
    elif pick < 0.9 and small:  # one variable beside the other
        gap = s - t + rng.randint(-1, last)
        found["start"] = [[(1, -1, "!=", gap), (1, -1, rng.choice([">=", "<="]), gap)]]
    elif small and abs(s) < 2**58 and abs(t) < 2**58:
        found["start"] = [[(2, 4, "=", 2 * s + 4 * t + rng.choice([1, 3, 2, 0, 4]))]]
    return found
