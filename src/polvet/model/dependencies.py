"""What depends on what: cycles among constants and functions, and which functions need a state to have a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set

from polvet.model.automata import Function
from polvet.model.expressions import Call, Expression, names, parts_of


def find_cycle(nodes: Iterable[str], successors: Callable[[str], Iterable[str]]) -> list[str] | None:
    """Return the names along a cycle, the first one again at the end, if there is one; no recursion."""
    done: set[str] = set()
    for root in nodes:
        if root in done:
            continue
        path, on_path = [root], {root}
        frames = [iter(successors(root))]
        while frames:
            following = next(frames[-1], None)
            if following is None:
                frames.pop()
                done.add(last := path.pop())
                on_path.discard(last)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                on_path.add(following)
                frames.append(iter(successors(following)))
    return None


def circle(names_on_it: list[str]) -> str:
    """Return the names with arrows between them; of a long circle only some."""
    if len(names_on_it) > 8:
        names_on_it = [*names_on_it[:6], "...", names_on_it[-1]]
    return " -> ".join(names_on_it)


def calls(expression: Expression) -> list[str]:
    """Return the functions that the expression calls, each once."""
    return list(dict.fromkeys(part.function for part in parts_of(expression) if isinstance(part, Call)))


def varying_functions(functions: Iterable[Function], variables: Set[str]) -> frozenset[str]:
    """Return the functions whose value depends on the state: they read variables, themselves or by others."""
    bodies = {function.name: function for function in functions}
    varying = {
        name
        for name, function in bodies.items()
        if (names(function.body) - {parameter for parameter, _ in function.parameters}) & variables
    }
    callers: dict[str, list[str]] = {}
    for name, function in bodies.items():
        for called in calls(function.body):
            callers.setdefault(called, []).append(name)
    pending = list(varying)
    while pending:
        for caller in callers.get(pending.pop(), ()):
            if caller not in varying:
                varying.add(caller)
                pending.append(caller)
    return frozenset(varying)
