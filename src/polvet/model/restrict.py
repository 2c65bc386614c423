"""A task without some of its variables: those that nothing kept ever reads.

`restrict(task, keep)` is checked, not trusted: guards, probabilities, `fail`, `goal` and the values given to kept variables may
read kept variables only. Conjuncts of the start condition that read others are dropped.
SOUND: a run of the task, with the other variables left out, is a run of the restricted task; so what is safe in the restricted
task is safe in the task. Errors in computing left-out variables (bounds, division by zero) are not seen in the restricted task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from polvet.errors import InputError
from polvet.model.expressions import Expression, Name, Select, conjunction, conjuncts, names
from polvet.model.network import Branch, Network, NetworkEdge, Update
from polvet.model.tables import TableMoves
from polvet.model.task import Task


def targets(update: Update) -> set[str]:
    """Return the scalars that the update may write."""
    if isinstance(update.target, Name):
        return {update.target.name}
    return {item.name for item in update.target.items if isinstance(item, Name)}


def reads(update: Update) -> set[str]:
    """Return the names on which the written value, and which scalar is written, depend."""
    read = names(update.value)
    if isinstance(update.target, Select):
        for index in update.target.indices:
            read |= names(index)
    return read


def steering(task: Task) -> Iterator[Expression]:
    """Yield all expressions that decide where runs go and end: guards, probabilities, `fail` and `goal`."""
    yield task.fail
    yield task.goal
    if isinstance(task.network.edges, TableMoves):
        yield task.network.edges.table.guard(0)  # all guards read the same variables, and probabilities read none
        return
    for edge in task.network.edges:
        yield edge.guard
        yield from (branch.probability for branch in edge.branches)


def restrict(task: Task, keep: Collection[str]) -> Task:
    """Return the task over the variables in `keep` alone; an InputError where a left-out one is read."""
    network = task.network
    if network.disables_out_of_bounds:
        raise InputError(
            "variables are left out, yet bounds decide which operators are enabled.", hint="Keep all variables."
        )
    kept = set(keep)
    own = {variable.name for variable in (*network.variables, *network.scratch)}
    unknown = kept - own
    if unknown:
        raise InputError(f"'{min(unknown)}' is no variable of the model.", hint="Use the names that polvet info lists.")
    dropped = own - kept
    for expression in steering(task):
        _check(names(expression) & dropped)
    edges: Sequence[NetworkEdge]
    if isinstance(network.edges, TableMoves):
        edges = network.edges.restricted(kept)
    else:
        edges = tuple(_restricted_edge(edge, kept, dropped) for edge in network.edges)
    start = None if task.start is None else _restricted_condition(task.start, dropped)
    return replace(task, network=_restricted_network(network, edges, kept, dropped), start=start)


def _check(read: set[str]) -> None:
    if read:
        raise InputError(f"'{min(read)}' is left out, yet it is read.", hint="Keep it, or fix its value first.")


def _restricted_edge(edge: NetworkEdge, kept: set[str], dropped: set[str]) -> NetworkEdge:
    branches = []
    for branch in edge.branches:
        updates = tuple(update for update in branch.updates if targets(update) & kept)
        for update in updates:
            _check((targets(update) | reads(update)) & dropped)
        branches.append(Branch(branch.probability, updates))
    return replace(edge, branches=tuple(branches))


def _restricted_condition(condition: Expression, dropped: set[str]) -> Expression:
    return conjunction(*(part for part in conjuncts(condition) if not names(part) & dropped))


def _restricted_network(network: Network, edges: Sequence[NetworkEdge], kept: set[str], dropped: set[str]) -> Network:
    return replace(
        network,
        variables=tuple(variable for variable in network.variables if variable.name in kept),
        scratch=tuple(variable for variable in network.scratch if variable.name in kept),
        edges=edges,
        initial_condition=_restricted_condition(network.initial_condition, dropped),
    )
