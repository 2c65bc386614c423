"""Small integer transition systems, as terms of their own that are written in many ways: every run within their windows is tried out."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

HEAD = "(GOAL COMPLEXITY)\n(STARTTERM (FUNCTIONSYMBOLS f))\n(VAR A B)\n(RULES\n"
BASES = (0, 0, 0, -2, 2**31 - 2, 2**53 - 1, 2**63 - 2, -(2**63) - 1)
SIGNS = {">=": lambda a, b: a >= b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b, ">": lambda a, b: a > b}


def value(term, names):
    """The value of a term: a number, a name, or (operator, left, right)."""
    if not isinstance(term, tuple):
        return names[term] if isinstance(term, str) else term
    left, right = value(term[1], names), value(term[2], names)
    return left + right if term[0] == "+" else left - right if term[0] == "-" else left * right


def is_linear(term):
    if not isinstance(term, tuple):
        return True
    if term[0] == "*" and all(isinstance(part, str | tuple) for part in term[1:]):
        return False
    return is_linear(term[1]) and is_linear(term[2])


@dataclass(frozen=True)
class Rule:
    """A rule f(...) -> Com_n(g(...), ...) over names of its own."""

    source: str
    names: tuple[str, ...]
    free: dict[str, tuple[int, int]]  # between these, by a guard
    guard: list[tuple[object, str, object]]
    calls: list[tuple[str, tuple[object, ...]]]

    def outcomes(self, values):
        """Yield (number of the call, free values, target, values after)."""
        if len(values) != len(self.names):
            return
        for drawn in product(*(range(low, high + 1) for low, high in self.free.values())):
            here = dict(zip(self.names, values, strict=True)) | dict(zip(self.free, drawn, strict=True))
            if all(SIGNS[sign](value(a, here), value(b, here)) for a, sign, b in self.guard):
                for k, (target, terms) in enumerate(self.calls):
                    yield k, here, target, tuple(value(term, here) for term in terms)


@dataclass(frozen=True)
class System:
    """Rules over two locations f and g; every rule keeps the values before it within their windows."""

    rules: list[Rule]
    windows: list[tuple[int, int]]
    texts: list[str] = field(default_factory=list)

    @cached_property
    def starts(self):
        return [("f", values) for values in product(*(range(low, high + 1) for low, high in self.windows))]

    def steps(self, configuration):
        """The steps: (number of the transition, names before, configuration after)."""
        found, first = [], 0
        for rule in self.rules:
            if rule.source == configuration[0]:
                for k, here, target, after in rule.outcomes(configuration[1]):
                    found.append((first + k, here, (target, after)))
            first += len(rule.calls)
        return found

    @cached_property
    def graph(self):
        found, pending = {}, list(self.starts)
        while pending:
            here = pending.pop()
            if here not in found:
                found[here] = self.steps(here)
                pending += [step[2] for step in found[here]]
        return found

    @cached_property
    def is_endless(self):
        left = dict(self.graph)
        while True:
            ended = [here for here, steps in left.items() if not any(step[2] in left for step in steps)]
            if not ended:
                return bool(left)
            for here in ended:
                del left[here]

    def save(self, folder):
        file = folder / "system.koat"
        file.write_text(HEAD + "\n".join(self.texts) + "\n)\n", encoding="utf-8")
        return file


def random_system(rng):
    """Return a system of one or two variables, with products, brackets, other names for parameters, and free names."""
    count = rng.choice([1, 1, 2])
    windows = []
    for _ in range(count):
        low = rng.choice(BASES)
        windows.append((low, low + rng.randint(0, 4)))
    names = ("A", "B")[:count]
    rules = [_rule(rng, "f" if k == 0 else rng.choice("fg"), names, windows) for k in range(rng.randint(1, 4))]
    return System(rules, windows, [written(rng, rule) for rule in rules])


def _rule(rng, source, names, windows):
    own = names
    if rng.random() < 0.15:
        own = rng.choice([("X", "Y"), ("B", "A")])[: len(names)]
    free = {}
    if rng.random() < 0.2:
        low = rng.choice([-1, 0, windows[0][0]])
        free["K"] = low, low + rng.randint(0, 2)
    guard = []
    for name, (low, high) in [*zip(own, windows, strict=True), *free.items()]:
        guard += [(name, ">=", low), (name, "<=", high)]
    known = [*own, *free]
    for _ in range(rng.choice([0, 1, 1, 2])):
        name = rng.choice(known)
        low, high = (free | dict(zip(own, windows, strict=True)))[name]
        right = rng.randint(low - 1, high + 1)
        match rng.randint(0, 4):
            case 0:
                guard.append((("*", name, rng.choice(known)), rng.choice(list(SIGNS)), right * right))
            case 1:
                guard.append((("-", ("*", 2, name), right), rng.choice(list(SIGNS)), right + 1))
            case _:
                guard.append((name, rng.choice(list(SIGNS)), right))
    calls = []
    for _ in range(rng.choice([1, 1, 1, 2])):
        terms = []
        for name in own:
            match rng.randint(0, 7):
                case 0:
                    terms.append(("*", name, rng.choice(known)))
                case 1:
                    terms.append(("+", ("-", name, 1), ("-", rng.choice(known), name)))
                case 2:
                    terms.append(rng.choice(known))
                case 3 | 4:
                    terms.append(("+", name, rng.choice([1, 2])))
                case 5 | 6:
                    terms.append(("-", name, 1))
                case _:
                    terms.append(name)
        calls.append((rng.choice("fg"), tuple(terms)))
    return Rule(source, own, free, guard, calls)


def text_of(rng, term, outer=False):
    if not isinstance(term, tuple):
        text = str(term)
        if text.startswith("-") or rng.random() < 0.1:
            text = f"({text})"
    else:
        text = f"{text_of(rng, term[1])} {term[0]} {text_of(rng, term[2])}"
        if not outer or rng.random() < 0.2:
            text = f"({text})"
    return text


def written(rng, rule):
    calls = [f"{target}({', '.join(text_of(rng, term, outer=True) for term in terms)})" for target, terms in rule.calls]
    atoms = []
    for left, sign, right in rule.guard:
        turned = {">=": "<=", "<=": ">=", ">": "<", "=": "="}
        one, other = text_of(rng, left, outer=True), text_of(rng, right, outer=True)
        atoms.append(f"{other} {turned[sign]} {one}" if rng.random() < 0.3 else f"{one} {sign} {other}")
    rng.shuffle(atoms)
    condition = " && ".join(atoms)
    return f"  {rule.source}({','.join(rule.names)}) -> Com_{len(calls)}({', '.join(calls)}) :|: {condition}"
