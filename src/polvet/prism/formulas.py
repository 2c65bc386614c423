"""Formulas replaced by what they stand for, and names by other names; both without letting expressions explode.

An expanded formula is shared by all its uses in memory, but whoever walks over it meets it again and again. So sizes
are counted with repetitions: one expression has at most MAX_NODES nodes and depth MAX_DEPTH, a program MAX_TOTAL nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polvet.errors import InputError, Where
from polvet.model.expressions import Expression, Name, children, names, rebuild
from polvet.prism.syntax import Definition

MAX_NODES = 1_000_000
MAX_DEPTH = 200
MAX_TOTAL = 10_000_000


class Expander:
    """The formulas of a program, each with the formulas inside it replaced; a formula that needs itself is refused."""

    def __init__(self, formulas: tuple[Definition, ...]) -> None:
        self.formulas: dict[str, Expression] = {}
        self.sizes: dict[str, tuple[int, int]] = {}
        self.total = 0
        written = {formula.name: formula for formula in formulas}
        for formula in formulas:
            # An explicit stack: a long chain of formulas must not reach the end of Python's own.
            path = [formula.name]
            active = {formula.name}
            while path:
                current = written[path[-1]]
                missing = [n for n in sorted(names(current.value)) if n in written and n not in self.formulas]
                if not missing:
                    self._define(current)
                    active.discard(path.pop())
                elif missing[0] in active:
                    cycle = " -> ".join([*path[path.index(missing[0]) :], missing[0]])
                    raise InputError(f"the formula needs itself: {cycle}.", current.where, "Break the circle.")
                else:
                    path.append(missing[0])
                    active.add(missing[0])

    def _define(self, formula: Definition) -> None:
        if formula.name not in self.formulas:
            expression = self.expanded(formula.value, formula.where)
            self.sizes[formula.name] = measure(formula.value, self.sizes)
            self.formulas[formula.name] = expression

    def expanded(self, expression: Expression, where: Where) -> Expression:
        """Return the expression with formulas replaced, within the limits."""
        nodes, depth = measure(expression, self.sizes)
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            what = f"with its formulas replaced the expression has {_count(nodes)} nodes and depth {depth};"
            hint = "Group it with brackets, or use variables instead of formulas."
            raise InputError(f"{what} at most {MAX_NODES} and {MAX_DEPTH} are read.", where, hint)
        self.spend(nodes, where)
        return substituted(expression, self.formulas) if self.formulas else expression

    def spend(self, nodes: int, where: Where) -> None:
        """Count nodes towards the limit of the whole program."""
        self.total += nodes
        if self.total > MAX_TOTAL:
            what = f"with its formulas replaced and modules copied the program has over {MAX_TOTAL} nodes."
            raise InputError(what, where, "Use fewer copies, or variables instead of formulas.")


def substituted(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    """Return the expression with names replaced by expressions, all at once."""
    done: dict[int, Expression] = {}
    for part in _children_first(expression):
        if isinstance(part, Name):
            done[id(part)] = values.get(part.name, part)
        else:
            done[id(part)] = rebuild(part, lambda child: done[id(child)])
    return done[id(expression)]


def renamed(expression: Expression, renaming: Mapping[str, str]) -> Expression:
    """Return the expression with names replaced by other names, all at once."""
    return substituted(expression, {old: Name(new) for old, new in renaming.items()})


def measure(expression: Expression, sizes: Mapping[str, tuple[int, int]] | None = None) -> tuple[int, int]:
    """Return the number of nodes, shared ones counted each time, and the depth; `sizes` are those of formulas.

    >>> from polvet.model.expressions import Binary
    >>> measure(Binary("+", Name("x"), Binary("+", Name("x"), Name("f"))), {"f": (10, 4)})
    (14, 6)
    """
    known = sizes or {}
    done: dict[int, tuple[int, int]] = {}
    for part in _children_first(expression):
        if isinstance(part, Name):
            done[id(part)] = known.get(part.name, (1, 1))
        else:
            parts = [done[id(child)] for child in children(part)]
            done[id(part)] = 1 + sum(nodes for nodes, _ in parts), 1 + max((depth for _, depth in parts), default=0)
    return done[id(expression)]


def _count(number: int) -> str:
    return str(number) if number < 10**18 else "over 10^18"


def _children_first(expression: Expression) -> Iterator[Expression]:
    """Yield every part once, its sub-expressions before it, with a stack of its own: depth costs no recursion."""
    seen: set[int] = set()
    pending: list[tuple[Expression, bool]] = [(expression, False)]
    while pending:
        part, opened = pending.pop()
        if opened:
            yield part
        elif id(part) not in seen:
            seen.add(id(part))
            pending.append((part, True))
            pending += [(child, False) for child in children(part)]
