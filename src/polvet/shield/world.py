"""The MDP a permissive scheduler lives in: states with *options*, what a policy may choose.

An option is a label: all enabled operators of that label, and all silent ones, among which the environment picks. So an
option is one choice of the MDP in most models, and several where labels are shared. A state where only silent operators
are enabled has one option without a label. Runs end in fail and goal states, which have no options.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

import polvet._core as _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where, did_you_mean
from polvet.kernel.compiled import Compiled, describe_limit
from polvet.kernel.lower import Reward
from polvet.kernel.starts.starts import no_start
from polvet.mdp.build import build_exactly, matrix_of
from polvet.mdp.scheduler import take_choices
from polvet.mdp.sparse import Mask, SparseMdp, Uint64s, mask_of
from polvet.model.expressions import Name
from polvet.model.network import Network
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.numbers import exact

EXACT_STATES = 20_000
"""Up to so many states the interpreter builds the MDP in fractions; above, the kernel does in doubles with bounds."""
COST = "cost"


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The options of state s are option_start[s] .. option_start[s + 1]; their choices of the MDP likewise."""

    mdp: SparseMdp
    option_start: Uint64s
    option_choice: Uint64s
    option_label: NDArray[np.int32]  # -1: the silent pseudo-action
    fail: Mask
    goal: Mask
    states: Sequence[State] | None = None
    labels: tuple[str, ...] = ()

    @property
    def options(self) -> int:
        """How many options there are."""
        return len(self.option_label)

    @property
    def is_plain(self) -> bool:
        """Whether each option is one choice: the environment never picks between operators."""
        return self.options == self.mdp.choices

    @property
    def ended(self) -> Mask:
        """Where runs end: fail, goal, and where nothing is applicable."""
        return np.asarray(np.diff(self.option_start) == 0)

    def without_rewards(self) -> World:
        """Return the world in which nothing costs."""
        return replace(self, mdp=replace(self.mdp, rewards={}, exact_rewards={}))

    def from_everywhere(self) -> World:
        """Return the same world with every state initial."""
        return replace(self, mdp=self.mdp.from_everywhere())

    def owners(self) -> NDArray[np.int64]:
        """Return the state of each option."""
        return np.repeat(np.arange(self.mdp.states), np.diff(self.option_start).astype(np.int64))

    def label_of(self, option: int) -> str | None:
        """Return the label a policy chooses the option by; None for the pseudo-action."""
        label = int(self.option_label[option])
        return None if label < 0 else self.labels[label] if self.labels else str(label)

    @classmethod
    def of(
        cls, mdp: SparseMdp, *, fail: Mask, goal: Mask | None = None, labels: NDArray[np.int32] | None = None
    ) -> World:
        """Return the world of an MDP whose choice c has labels[c] (absent: every choice is an option of its own)."""
        mdp.validate()
        reached = np.zeros(mdp.states, dtype=bool) if goal is None else goal & ~fail
        return _regroup(mdp, fail, reached, labels)


def build_world(
    task: Task,
    *,
    cost: str | None = None,
    exact: bool | None = None,
    budget: Budget = UNLIMITED,
) -> World:
    """Return the world of the task, every reachable state; exact=None: in fractions where the model is small."""
    network = started(task)
    conditions = (task.fail, task.goal)
    rewards = {} if cost is None else {COST: cost_of(network, cost)}
    if exact is not True:
        compiled = Compiled(network, conditions=conditions, rewards=tuple(rewards.values()))
        space = compiled.explore(build=True, stop_at=(0, 1), budget=budget)
        if (limit := describe_limit(space, budget)) is not None:
            raise limit
        if len(space) == 0:
            raise no_start(task, Where("--start"))
        if exact is False or len(space) > EXACT_STATES:
            mdp, labels = matrix_of(space, rewards)
            fail, goal = (space.mask(i).astype(bool) for i in range(2))
            states = compiled.unpack(space.states(0, len(space)))
            return replace(_regroup(mdp, fail, goal & ~fail, labels), states=states, labels=network.labels)
    built = build_exactly(
        network,
        conditions=conditions,
        rewards=rewards,
        stop_at=(0, 1),
        budget=budget,
    )
    if built.limit is not None:
        raise built.limit
    if not built.mdp.states:
        raise no_start(task, Where("--start"))
    fail, goal = built.masks
    states = [built.state_of(number) for number in range(built.mdp.states)]
    return replace(_regroup(built.mdp, fail, goal & ~fail, built.labels), states=states, labels=network.labels)


def started(task: Task) -> Network:
    """Return the network whose initial states are the task's start states."""
    if task.start is None:
        return task.network
    variables = tuple(replace(variable, initial=None) for variable in task.network.variables)
    return replace(task.network, variables=variables, initial_condition=task.start)


def cost_of(network: Network, name: str) -> Reward:
    """Return the reward variable as the kernels collect it: what it holds in a state, or what the step assigned."""
    transients = [variable.name for variable in network.scratch]
    known = [*transients, *(variable.name for variable in network.variables)]
    if name not in known:
        hint = did_you_mean(name, known) or f"The model's transient variables are: {', '.join(transients) or 'none'}."
        raise InputError(f"no variable '{name}'.", Where("--cost"), hint)
    if name in transients:
        return Reward(None, network.resolve_step(Name(name), Where("--cost")))
    return Reward(network.resolve(Name(name), Where("--cost"), exact=True), None)


def _regroup(mdp: SparseMdp, fail: Mask, goal: Mask, labels: NDArray[np.int32] | None) -> World:
    """Return the world with the choices of each option side by side; silent choices are copied into every option."""
    ended = fail | goal
    starts = mdp.choice_start.astype(np.int64).tolist()
    order: list[int] = []
    option_start, option_choice, option_label = [0], [0], []
    choice_start = [0]
    kinds = None if labels is None else labels.tolist()
    over = ended.tolist()
    for state in range(mdp.states):
        choices = range(starts[state], starts[state + 1])
        if not over[state] and len(choices):
            if kinds is None:
                for place, choice in enumerate(choices):
                    order.append(choice)
                    option_choice.append(len(order))
                    option_label.append(place)
            else:
                silent = [c for c in choices if kinds[c] < 0]
                named = sorted({kinds[c] for c in choices if kinds[c] >= 0})
                for label in named or [-1]:
                    # SOUND: the environment moves when it likes, so its operators belong to every label.
                    order += [c for c in choices if label >= 0 and kinds[c] == label] + silent
                    option_choice.append(len(order))
                    option_label.append(label)
        option_start.append(len(option_label))
        choice_start.append(len(order))
    picked = np.array(order, dtype=np.int64)
    return World(
        take_choices(mdp, picked, np.array(choice_start, dtype=np.uint64)),
        np.array(option_start, dtype=np.uint64),
        np.array(option_choice, dtype=np.uint64),
        np.array(option_label, dtype=np.int32),
        fail,
        goal,
    )


@dataclass(frozen=True, slots=True, eq=False)
class SubMdp:
    """The MDP that a permissive scheduler induces (Definition 8), on its reachable states, numbered anew."""

    mdp: SparseMdp
    states: NDArray[np.int64]  # the world's number of each state
    choices: NDArray[np.int64]  # the world's number of each choice
    options: NDArray[np.int64]  # the permitted options of reachable states
    fail: Mask
    goal: Mask


def induce_permitted(world: World, permitted: Mask) -> SubMdp:
    """Return the sub-MDP of the permitted options and the states they reach."""
    mdp = world.mdp
    marks = np.zeros(mdp.states, dtype=np.uint8)
    _core.reach_permitted(
        mdp.branch_start,
        mdp.target,
        world.option_start,
        world.option_choice,
        permitted.astype(np.uint8),
        mdp.initial.astype(np.uint32),
        marks,
    )
    reached = marks.astype(bool)
    owners = world.owners()
    keep = permitted & reached[owners] if world.options else permitted
    widths = np.diff(world.option_choice).astype(np.int64)
    choices = np.flatnonzero(np.repeat(keep, widths))
    counts = np.bincount(np.repeat(owners, widths)[choices], minlength=mdp.states)
    states = np.flatnonzero(reached)
    number = np.full(mdp.states, -1, dtype=np.int64)
    number[states] = np.arange(len(states))
    part = take_choices(mdp, choices, np.concatenate([[0], np.cumsum(counts[states])]).astype(np.uint64))
    part = replace(part, target=number[part.target].astype(np.uint32), initial=number[mdp.initial].astype(np.uint32))
    return SubMdp(part, states, choices, np.flatnonzero(keep), world.fail[states], world.goal[states])


def reached_options(world: World, permitted: Mask) -> Mask:
    """Return the permitted options of the states that they reach."""
    return mask_of(induce_permitted(world, permitted).options, world.options)


def parse_bound(text: str | Fraction | int, where: Where) -> Fraction:
    """Return the bound on a probability, read exactly: a decimal or a fraction between 0 and 1.

    >>> parse_bound("0.1", Where("--bound"))
    Fraction(1, 10)
    """
    number = exact(text) if isinstance(text, str) else text
    if number is None:
        raise InputError(f"'{str(text)[:40]}' is no number.", where, "Write 0.1 or 1/10.")
    bound = Fraction(number)
    if not 0 <= bound <= 1:
        raise InputError(f"the bound {text} is no probability.", where, "It must lie between 0 and 1.")
    return bound
