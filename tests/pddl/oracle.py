"""A naive interpreter of PDDL: nested lists, every ground action tried in every state; shares no code with polvet.

A state is a set of tuples: atoms ("at", "r1", "a"), and numbers ("=", ("fuel", "r1"), 3).
"""

from __future__ import annotations

import operator
import re
from fractions import Fraction
from functools import reduce
from itertools import count, product


def read(text):
    """Return the text as nested lists of words in small letters."""
    stack = [[]]
    for word in re.findall(r"[()]|[^\s()]+", re.sub(r";[^\n]*", "", text.lower())):
        if word == "(":
            stack.append([])
        elif word == ")":
            closed = stack.pop()
            stack[-1].append(closed)
        else:
            stack[-1].append(word)
    return stack[0][0]


def typed(items):
    """Return pairs of a name and its types."""
    found, names, k = [], [], 0
    while k < len(items):
        if items[k] == "-":
            types = items[k + 1][1:] if isinstance(items[k + 1], list) else [items[k + 1]]
            found += [(name, types) for name in names]
            names, k = [], k + 2
        else:
            names.append(items[k])
            k += 1
    return found + [(name, ["object"]) for name in names]


class World:
    """A problem as sets of ground atoms and numbers; `unread` names functions that are no part of states."""

    def __init__(self, domain, problem, unread=()):
        self.tags = count()
        domain, problem = read(domain), read(problem)
        self.parents, objects, self.actions = {}, [], []
        for section in domain[2:]:
            if section[0] == ":types":
                self.parents = dict(typed(section[1:]))
            elif section[0] == ":constants":
                objects += typed(section[1:])
            elif section[0] == ":action":
                fields = dict(zip(section[2::2], section[3::2], strict=True))
                self.actions.append((section[1], fields))
        for section in problem[2:]:
            if section[0] == ":objects":
                objects += typed(section[1:])
            elif section[0] == ":init":
                atoms = [atom for atom in section[1:] if atom[0] not in ("=", "not")]
                numbers = [("=", tuple(atom[1]), int(float(atom[2]))) for atom in section[1:] if atom[0] == "="]
                self.init = frozenset([*map(tuple, atoms), *(one for one in numbers if one[1][0] not in unread)])
            elif section[0] == ":goal":
                self.goal = section[1]
        self.objects, self.unread = dict(objects), unread

    def of(self, types):
        """Return the objects of one of the types."""
        return [name for name, own in self.objects.items() if any(self.below(one, types) for one in own)]

    def below(self, kind, types):
        """Return whether the type is one of the types or lies below one."""
        if kind in types or "object" in types:
            return True
        return kind != "object" and any(self.below(one, types) for one in self.parents.get(kind, ()))

    def values(self, variables, env):
        """Yield every way to give the variables objects."""
        pairs = typed(variables)
        for row in product(*(self.of(types) for _, types in pairs)):
            yield {**env, **dict(zip((name for name, _ in pairs), row, strict=True))}

    def holds(self, condition, env, state):
        """Return whether the condition holds in the state."""
        if not condition:
            return True
        match condition[0]:
            case "and":
                return all(self.holds(part, env, state) for part in condition[1:])
            case "or":
                return any(self.holds(part, env, state) for part in condition[1:])
            case "not":
                return not self.holds(condition[1], env, state)
            case "imply":
                return not self.holds(condition[1], env, state) or self.holds(condition[2], env, state)
            case "forall":
                return all(self.holds(condition[2], inner, state) for inner in self.values(condition[1], env))
            case "exists":
                return any(self.holds(condition[2], inner, state) for inner in self.values(condition[1], env))
            case "=" if not isinstance(condition[1], list) and not isinstance(condition[2], list):
                return env.get(condition[1], condition[1]) == env.get(condition[2], condition[2])
            case "=" | "<" | ">" | "<=" | ">=" as sign:
                one, other = (self.number(part, env, state) for part in condition[1:])
                tests = {"=": operator.eq, "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}
                return tests[sign](one, other)
        return tuple(env.get(word, word) for word in condition) in state

    def number(self, part, env, state):
        """Return what the number is in the state."""
        if not isinstance(part, list):
            return int(float(part))
        if part[0] in ("+", "-", "*"):
            values = [self.number(one, env, state) for one in part[1:]]
            if len(values) == 1:
                return -values[0]
            return reduce({"+": operator.add, "-": operator.sub, "*": operator.mul}[part[0]], values)
        fluent = tuple(env.get(word, word) for word in part)
        return next(one[2] for one in state if one[0] == "=" and one[1] == fluent)

    def shift(self, effect, env, state):
        """Return a number's change as atoms to add: ("+", fluent, by, a tag of its own), or (":=", fluent, value)."""
        fluent = tuple(env.get(word, word) for word in effect[1])
        if fluent[0] in self.unread:
            return frozenset()
        amount = self.number(effect[2], env, state)
        if effect[0] == "assign":
            return frozenset({(":=", fluent, amount)})
        if effect[0] == "scale-up":
            return frozenset({(":=", fluent, amount * self.number(effect[1], env, state))})
        return frozenset({("+", fluent, -amount if effect[0] == "decrease" else amount, next(self.tags))})

    def after(self, state, deleted, added):
        """Return the state with the deletes, the adds and the numbers changed."""
        shifts = [one for one in added if one[0] in ("+", ":=")]
        atoms = (state - deleted) | {one for one in added if one[0] not in ("+", ":=")}
        for fluent in {one[1] for one in shifts}:
            (before,) = [one for one in state if one[0] == "=" and one[1] == fluent]
            assigned = {one[2] for one in shifts if one[0] == ":=" and one[1] == fluent}
            by = [one[2] for one in shifts if one[0] == "+" and one[1] == fluent]
            assert len(assigned) + bool(by) == 1
            atoms = (atoms - {before}) | {("=", fluent, assigned.pop() if assigned else before[2] + sum(by))}
        return frozenset(atoms)

    def outcomes(self, effect, env, state):
        """Return what may happen: triples of a probability, atoms to delete, atoms to add."""
        nothing = [(Fraction(1), frozenset(), frozenset())]
        if not effect:
            return nothing
        match effect[0]:
            case "and":
                return self.together([self.outcomes(part, env, state) for part in effect[1:]])
            case "forall":
                return self.together([self.outcomes(effect[2], inner, state) for inner in self.values(effect[1], env)])
            case "when":
                return self.outcomes(effect[2], env, state) if self.holds(effect[1], env, state) else nothing
            case "oneof":
                chance = Fraction(1, len(effect) - 1)
                return [(chance * p, d, a) for part in effect[1:] for p, d, a in self.outcomes(part, env, state)]
            case "probabilistic":
                chances = [Fraction(word) for word in effect[1::2]]
                parts = [*zip(chances, effect[2::2], strict=True), (1 - sum(chances), [])]
                return [(q * p, d, a) for q, part in parts for p, d, a in self.outcomes(part, env, state)]
            case "increase" | "decrease" | "assign" | "scale-up":
                return [(Fraction(1), frozenset(), self.shift(effect, env, state))]
            case "not":
                return [(Fraction(1), frozenset({tuple(env.get(word, word) for word in effect[1])}), frozenset())]
        return [(Fraction(1), frozenset(), frozenset({tuple(env.get(word, word) for word in effect)}))]

    @staticmethod
    def together(lists):
        """Return the combinations of independent outcomes."""
        found = [(Fraction(1), frozenset(), frozenset())]
        for more in lists:
            found = [(p * q, d | e, a | b) for p, d, a in found for q, e, b in more]
        return found

    def moves(self, state):
        """Return the successors of each applicable ground action with their probabilities."""
        found = {}
        for name, fields in self.actions:
            for env in self.values(fields.get(":parameters", []), {}):
                if self.holds(fields.get(":precondition", []), env, state):
                    successors = {}
                    for chance, deleted, added in self.outcomes(fields.get(":effect", []), env, state):
                        if chance:
                            after = self.after(state, deleted, added)
                            successors[after] = successors.get(after, 0) + chance
                    label = f"{name}({','.join(env.values())})" if env else name
                    assert label not in found
                    found[label] = successors
        return found

    def explore(self, limit):
        """Return the moves of the first states from the initial one, breadth first."""
        found, pending = {}, [self.init]
        for state in pending:
            if state not in found:
                found[state] = self.moves(state)
                pending += [after for successors in found[state].values() for after in successors]
                if len(found) >= limit:
                    break
        return found
