"""The law of flat texts: their interpreter, the kernel and the interpreter of models say the same of every state."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from polvet import _core
from polvet.errors import InputError
from polvet.evidence.checker.policies import Chooser
from polvet.evidence.checker.world import ModelFault, World
from polvet.evidence.flatten import flatten
from polvet.kernel.compiled import Compiled
from polvet.kernel.starts import is_start_of
from polvet.model.automata import ModelType
from polvet.model.network import Kind
from polvet.model.semantics import Semantics, State
from polvet.model.task import Task
from polvet.policy.binding import Fitted
from polvet.policy.networks import Network
from polvet.policy.rounding import possible_choices, rounding_bounds
from polvet.policy.unit_graph import AnyNetwork
from tests.kernel.test_twins import fast_moves, some_states

FAULTS = ModelFault, ZeroDivisionError, OverflowError, ValueError
ERROR = "error"
"""What is said of a state in which the model has an error."""


def values(state: Sequence) -> tuple:
    """Return the state as flat texts have it: truth values are integers."""
    return tuple(value if isinstance(value, float) else int(value) for value in state)


def distribution(outcomes: Iterable[tuple[Fraction, State]]) -> list[tuple[Fraction, tuple]]:
    return sorted((Fraction(probability), values(state)) for probability, state in outcomes)


def of_model(semantics: Semantics, state: State):
    """Return what the interpreter of models says: labels with exact distributions."""
    try:
        moves = semantics.moves(state)
    except InputError:
        return ERROR
    found = [(move.label or "", distribution((o.probability, o.state) for o in move.outcomes)) for move in moves]
    if semantics.network.model.type is ModelType.DTMC and found:
        share = Fraction(1, len(found))
        return [("", sorted((share * p, target) for _, outcomes in found for p, target in outcomes))]
    return sorted(found)


def of_flat(world: World, state: State):
    """Return what the interpreter of flat texts says."""
    try:
        moves = world.moves(values(state))
    except FAULTS:
        return ERROR
    found = []
    for label, outcomes in moves:
        whole = sum(Fraction(weight) for weight, _ in outcomes)
        found.append((label or "", distribution((Fraction(weight) / whole, target) for weight, target in outcomes)))
    return sorted(found)


def of_kernel(compiled: Compiled, state: State):
    """Return what the kernel says: labels with distributions of doubles; None where it leaves 64 bits on the way."""
    moves = fast_moves(compiled, state)
    if moves is None:
        return None if compiled.machine.fault == _core.Fault.OVERFLOWED else ERROR
    return sorted((label, sorted((values(target), p) for p, target in outcomes)) for label, _, outcomes in moves)


def kernel_of(task: Task) -> Compiled | None:
    """Return the compiled network; None where its numbers do not fit into 64 bits."""
    try:
        return Compiled(task.network)
    except InputError:
        return None


def truth(condition, state):
    try:
        return bool(condition(state))
    except (InputError, OverflowError, *FAULTS):
        return ERROR


def moved(state: State, task: Task, chance) -> State:
    """Return a state near this one, within all bounds."""
    changed = list(state)
    for k, variable in enumerate(task.network.variables):
        if chance.random() < 0.3:
            if variable.kind is Kind.BOOL:
                changed[k] = chance.random() < 0.5
            elif variable.kind is Kind.INT:
                low = int(state[k]) - 3 if variable.lower is None else int(variable.lower)
                high = int(state[k]) + 3 if variable.upper is None else int(variable.upper)
                changed[k] = chance.randint(max(low, int(state[k]) - 3), min(high, int(state[k]) + 3))
    return tuple(changed)


def check_law(task: Task, *, chance=None, fitted: Fitted | None = None, kernel: bool = True) -> int:
    """Assert the law on states of the task; return on how many. A task that a text cannot say is an InputError."""
    task = task if fitted is None else fitted.task
    text = flatten(task, fitted)
    world = World(text)
    assert text == flatten(task, fitted), "the same task has the same text"
    semantics = Semantics(task.network)
    assert world.names == [variable.name for variable in task.network.variables]
    states = some_states(semantics)
    if chance is not None:
        states = list(dict.fromkeys([*states, *(moved(state, task, chance) for state in states[:20])]))
    compiled = kernel_of(task) if kernel else None
    fail, goal = semantics.compile(task.fail), semantics.compile(task.goal)
    is_start = is_start_of(task)
    for state in states:
        expected, got = of_model(semantics, state), of_flat(world, state)
        assert got == expected, f"{semantics.show(state)}: flat {got}, model {expected}\n{text}"
        if compiled is not None and task.network.model.type is not ModelType.DTMC:
            assert_near(of_kernel(compiled, state), expected, semantics.show(state))
        assert truth(world.is_fail, values(state)) == truth(fail, state)
        assert truth(world.is_goal, values(state)) == truth(goal, state)
        if (said := truth(is_start, state)) is not ERROR:
            assert world.is_start(values(state)) == said, f"{semantics.show(state)} is a start: {said}\n{text}"
    check_starts(task, semantics, world, text)
    if fitted is not None:
        check_choices(fitted, semantics, world, states)
    return len(states)


def assert_near(kernel, expected, shown: str) -> None:
    if kernel is None or kernel == ERROR or expected == ERROR:
        assert kernel is None or kernel == expected, shown
        return
    assert [label for label, _ in kernel] == [label for label, _ in expected]
    fast = sorted((label, tuple(target), p) for label, outcomes in kernel for target, p in outcomes)
    slow = sorted((label, tuple(target), float(p)) for label, outcomes in expected for p, target in outcomes)
    assert [one[:2] for one in fast] == [one[:2] for one in slow], shown
    sums = zip(fast, slow, strict=True)
    assert all(math.isclose(p, q, rel_tol=1e-12, abs_tol=1e-320) for (*_, p), (*_, q) in sums), shown


def check_starts(task: Task, semantics: Semantics, world: World, text: str) -> None:
    try:
        states = semantics.initial_states() if task.start is None else semantics.states_satisfying(task.start)
        expected = {values(state) for state in states}
    except (InputError, OverflowError):
        return  # an error in a condition, or infinitely many
    starts = list(world.starts())
    assert len(starts) == len(set(starts))
    assert set(starts) == expected, text


def check_choices(fitted: Fitted, semantics: Semantics, world: World, states: Sequence[State]) -> None:
    """Of networks the text may leave open more than the kernel does, and never less than the reference chooses."""
    chooser = Chooser(world)
    names = fitted.names
    for state in states:
        try:
            applicable = {move.label for move in semantics.moves(state)} - {None}
        except InputError:
            continue
        if not applicable:
            continue
        got, may_stick = ERROR, None
        try:
            mask = fitted.mask(applicable)
            row = fitted.row(state)
            possible = {names[k] for k in np.flatnonzero(possible_choices(fitted.policy, row, mask)[0])}
            expected = {name for name in possible if name in applicable}, bool(possible - applicable) or not possible
        except InputError:  # a policy is not asked where none of its labels may be chosen
            expected = (set(), True) if fitted.filtered and not applicable & set(names) else (ERROR, None)
        try:
            labels, may_stick = chooser.choose(values(state), applicable)
            got = set(labels)
        except FAULTS:
            pass
        if isinstance(fitted.policy, AnyNetwork) and expected[0] != ERROR:
            assert_wide_enough(fitted, applicable, row, got, may_stick)
            if not isinstance(fitted.policy, Network) or rounding_bounds(fitted.policy, row).any():
                continue
        assert (got, may_stick) == expected, semantics.show(state)


def assert_wide_enough(fitted: Fitted, applicable: set, row, got: set, may_stick: bool) -> None:
    """Assert that what the reference chooses is among the choices, and what sums in another order and precision choose."""
    policy, names = fitted.policy, fitted.names
    scores = [policy.scores(row)[0]]
    if isinstance(policy, Network):
        for real in (np.float32, np.float64):
            values = row[0].astype(real)
            for depth, layer in enumerate(policy.layers):
                if depth:
                    values = np.maximum(values, 0)
                values = (layer.weights.astype(real) @ values + layer.bias.astype(real)).astype(np.float32).astype(real)
            scores.append(values)
    for one in scores:
        open_ = [k for k, name in enumerate(names) if not fitted.filtered or name in applicable]
        if not open_ or not np.isfinite(one).all():
            continue
        name = names[max(open_, key=lambda k: (one[k], -k))]
        assert name in got if name in applicable else may_stick
