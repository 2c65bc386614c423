"""Formulas replaced by what they stand for, and names by other names; both without letting expressions explode.

An expanded formula is shared by all its uses in memory, but whoever walks over it meets it again and again; so its size
counted with repetitions is limited (MAX_NODES), and so is its depth (MAX_DEPTH).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from polvet.errors import InputError, Where
from polvet.model.expressions import Expression, Name, children, names, rebuild
from polvet.prism.syntax import Definition

MAX_NODES = 1_000_000
MAX_DEPTH = 200


def expanded_formulas(formulas: tuple[Definition, ...]) -> dict[str, Expression]:
    """Return every formula with the formulas inside it replaced; a formula that needs itself is refused."""
    written = {formula.name: formula for formula in formulas}
    done: dict[str, Expression] = {}
    for formula in formulas:
        # An explicit stack: a long chain of formulas must not reach the end of Python's own.
        path = [formula.name]
        while path:
            current = written[path[-1]]
            missing = sorted(name for name in names(current.value) if name in written and name not in done)
            if not missing:
                done.setdefault(current.name, substituted(current.value, done, current.where))
                path.pop()
            elif missing[0] in path:
                cycle = " -> ".join([*path[path.index(missing[0]) :], missing[0]])
                raise InputError(f"the formula needs itself: {cycle}.", current.where, "Break the circle.")
            else:
                path.append(missing[0])
    return done


def substituted(expression: Expression, values: Mapping[str, Expression], where: Where) -> Expression:
    """Return the expression with names replaced by expressions, within the limits."""
    if not values:
        return expression
    result = _replaced(expression, values)
    nodes, depth = measure(result)
    if nodes > MAX_NODES or depth > MAX_DEPTH:
        what = f"with its formulas expanded the expression has {nodes} nodes and depth {depth};"
        raise InputError(f"{what} at most {MAX_NODES} and {MAX_DEPTH} are read.", where, "Use variables instead.")
    return result


def renamed(expression: Expression, renaming: Mapping[str, str]) -> Expression:
    """Return the expression with names replaced by other names, all at once."""
    return _replaced(expression, {old: Name(new) for old, new in renaming.items()})


def _replaced(expression: Expression, values: Mapping[str, Expression]) -> Expression:
    done: dict[int, Expression] = {}
    for part in _children_first(expression):
        if isinstance(part, Name):
            done[id(part)] = values.get(part.name, part)
        else:
            done[id(part)] = rebuild(part, lambda child: done[id(child)])
    return done[id(expression)]


def measure(expression: Expression) -> tuple[int, int]:
    """Return the number of nodes, shared ones counted each time, and the depth.

    >>> from polvet.model.expressions import Binary
    >>> measure(Binary("+", Name("x"), Binary("+", Name("x"), Name("y"))))
    (5, 3)
    """
    done: dict[int, tuple[int, int]] = {}
    for part in _children_first(expression):
        measured = [done[id(child)] for child in children(part)]
        done[id(part)] = 1 + sum(nodes for nodes, _ in measured), 1 + max((depth for _, depth in measured), default=0)
    return done[id(expression)]


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
