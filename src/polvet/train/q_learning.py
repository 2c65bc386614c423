"""Networks by deep Q-learning: many runs at once in the kernel, updates in torch on one thread.

Source   Mnih and others, Human-level control through deep reinforcement learning, Nature 2015; the target of van
         Hasselt, Guez and Silver, Double Q-learning, AAAI 2016 (the online network picks, the target network rates)
Differs  inputs are scaled to 0..1 by the variables' bounds while learning, and the scaling is folded into the first
         layer at the end: the policy reads plain values. Only applicable labels are rated, in `filtered` mode.
Rewards  1 at a goal, -1 at a fail and where the policy is stuck, 0 otherwise; `shaping` adds the potential difference
         discount * phi(s') - phi(s) (Ng, Harada, Russell, ICML 1999)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import MissingExtra
from polvet.kernel.compiled import Words
from polvet.model.network import Kind, Variable
from polvet.policy.binding import Fitted
from polvet.policy.compiled import FAIL, GOAL, Bound, bind_policy, compile_policy
from polvet.policy.networks import Network, network_of
from polvet.policy.runs import End, raise_what_broke

Potential = Callable[[Words], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class QOptions:
    """How a network learns."""

    hidden: tuple[int, ...] = (64, 64)
    steps: int = 200_000  # steps of the environment
    lanes: int = 32  # runs at once
    batch: int = 256
    steps_per_update: int = 16
    memory: int = 100_000
    discount: float = 0.99
    learning_rate: float = 1e-3
    refresh: int = 250  # updates between copies to the target network
    explore_until: float = 0.6  # share of the steps after which epsilon has fallen to its end
    epsilon_end: float = 0.05
    max_steps: int = 200  # of an episode
    seed: int = 0


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How the episodes since the last point ended."""

    steps: int
    episodes: int
    goal_percent: float
    fail_percent: float
    mean_length: float
    loss: float


@dataclass(frozen=True, slots=True, eq=False)
class Learnt:
    """The network and its learning curve."""

    policy: Network
    curve: tuple[CurvePoint, ...]


def learn(
    fitted: Fitted,
    starts: Words,
    options: QOptions | None = None,
    *,
    potential: Potential | None = None,
    budget: Budget = UNLIMITED,
) -> Learnt:
    """Return a network learnt on the task; `fitted` gives the names and order of its columns, its weights are not used."""
    chosen = options or QOptions()
    torch = torch_package()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return _Learner(torch, fitted, starts, chosen, potential, budget).run()
    finally:
        torch.set_num_threads(threads)


def torch_package() -> Any:
    """Return torch, or raise MissingExtra."""
    try:
        import torch
    except ImportError:
        raise MissingExtra("torch", "train") from None
    return torch


def blank_network(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Network:
    """Return a network that scores everything 0: a place holder for names and order."""
    return network_of([(np.zeros((len(outputs), len(inputs))), np.zeros(len(outputs)))], inputs, outputs)


class _Learner:
    def __init__(
        self,
        torch: Any,
        fitted: Fitted,
        starts: Words,
        options: QOptions,
        potential: Potential | None,
        budget: Budget,
    ) -> None:
        self.torch, self.fitted, self.options, self.potential = torch, fitted, options, potential
        self.budget = budget
        torch.manual_seed(options.seed)
        self.rng = np.random.default_rng(options.seed)
        known = fitted.task.network.variables
        variables = [known[one] if isinstance(one, int) else Variable("", Kind.REAL) for one in fitted.inputs]
        self.offset, self.scale = scaling(variables)
        sizes = [len(variables), *options.hidden, len(fitted.policy.outputs)]
        self.online, self.target = self._network(sizes), self._network(sizes)
        self.target.load_state_dict(self.online.state_dict())
        self.optimiser = torch.optim.Adam(self.online.parameters(), lr=options.learning_rate)
        self.bound = compile_policy(fitted)
        self.rollout = _core.Rollout(
            self.bound.core, starts, FAIL, GOAL, options.lanes, options.max_steps, options.seed
        )
        self.memory = _Memory(options.memory, len(variables), len(fitted.policy.outputs))
        self.updates = 0

    def _network(self, sizes: list[int]) -> Any:
        nn = self.torch.nn
        parts: list[Any] = []
        for width, neurons in pairwise(sizes):
            parts += [nn.Linear(width, neurons), nn.ReLU()]
        return nn.Sequential(*parts[:-1])

    def run(self) -> Learnt:
        options = self.options
        curve: list[CurvePoint] = []
        ends: list[NDArray[np.uint8]] = []
        lengths: list[NDArray[np.uint32]] = []
        losses: list[float] = []
        done, portion, shown = 0, 8, max(1, options.steps // 20)
        next_point = shown
        while done < options.steps:
            self.budget.check()
            share = min(1.0, done / max(1.0, options.explore_until * options.steps))
            epsilon = 1.0 + share * (options.epsilon_end - 1.0)
            batch = self._collect(self._bound(), portion, epsilon)
            ends.append(batch["episodes"])
            lengths.append(batch["lengths"])
            done += portion * options.lanes
            if self.memory.size >= options.batch:
                wanted = max(1, portion * options.lanes // options.steps_per_update)
                losses += [self._update() for _ in range(wanted)]
            if done >= next_point:
                next_point += shown
                curve.append(_point(done, np.concatenate(ends), np.concatenate(lengths), losses))
                ends, lengths, losses = [], [], []
            if self.budget.on_progress is not None:
                self.budget.on_progress(min(done, options.steps), options.steps)
        return Learnt(self.policy(), tuple(curve))

    def policy(self) -> Network:
        """Return the online network with the scaling folded into its first layer."""
        linear = [part for part in self.online if hasattr(part, "weight")]
        layers = [
            (part.weight.detach().numpy().astype(np.float64), part.bias.detach().numpy().astype(np.float64))
            for part in linear
        ]
        weights, bias = layers[0]
        layers[0] = weights * self.scale, bias + weights @ (self.offset * self.scale)
        return network_of(layers, self.fitted.policy.inputs, self.fitted.policy.outputs)

    def _bound(self) -> Bound:
        return bind_policy(replace(self.fitted, policy=self.policy()), self.bound.compiled)

    def _collect(self, bound: Bound, steps: int, epsilon: float) -> dict[str, Any]:
        batch = self.rollout.collect(bound.core, steps, epsilon)
        raise_what_broke(bound, batch["status"], batch["faulty"], batch["fault"], batch["policy_broken"])
        end = batch["end"]
        rewards = np.where(end == End.GOAL, 1.0, np.where((end == End.FAIL) | (end == End.STUCK), -1.0, 0.0))
        # A run cut off by the limit has not ended: its last state is worth what the network says.
        over = (end != End.UNFINISHED) & (end != End.LIMIT)
        if self.potential is not None:
            after = np.where(over, 0.0, self.potential(batch["next_states"]))
            rewards = rewards + self.options.discount * after - self.potential(batch["states"])
        masks = batch["next_masks"] if self.fitted.filtered else np.ones_like(batch["next_masks"])
        known = over | batch["next_masks"].any(axis=1)  # cut-off runs come without the labels of their last state
        self.memory.add(
            self._scaled(batch["rows"][known]),
            batch["action"][known],
            rewards[known].astype(np.float32),
            self._scaled(batch["next_rows"][known]),
            masks[known],
            over[known],
        )
        return batch

    def _scaled(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        return ((rows + self.offset) * self.scale).astype(np.float32)

    def _update(self) -> float:
        torch, options = self.torch, self.options
        rows, action, reward, following, masks, over = (
            torch.from_numpy(part) for part in self.memory.sample(options.batch, self.rng)
        )
        with torch.no_grad():
            open_labels = masks.bool()
            rated = self.online(following).masked_fill(~open_labels, -1e9)
            best = rated.argmax(dim=1, keepdim=True)
            worth = self.target(following).gather(1, best).squeeze(1)
            goal = reward + options.discount * worth * (~over.bool()).float()
        value = self.online(rows).gather(1, action.long().unsqueeze(1)).squeeze(1)
        loss = torch.nn.functional.smooth_l1_loss(value, goal)
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.online.parameters(), 10.0)
        self.optimiser.step()
        self.updates += 1
        if self.updates % options.refresh == 0:
            self.target.load_state_dict(self.online.state_dict())
        return float(loss.item())


class _Memory:
    """The last transitions, oldest overwritten first."""

    def __init__(self, capacity: int, inputs: int, outputs: int) -> None:
        self.rows = np.zeros((capacity, inputs), dtype=np.float32)
        self.following = np.zeros((capacity, inputs), dtype=np.float32)
        self.masks = np.zeros((capacity, outputs), dtype=np.uint8)
        self.action = np.zeros(capacity, dtype=np.int32)
        self.reward = np.zeros(capacity, dtype=np.float32)
        self.over = np.zeros(capacity, dtype=np.uint8)
        self.capacity, self.size, self.next = capacity, 0, 0

    def add(
        self,
        rows: NDArray[np.float32],
        action: NDArray[np.int32],
        reward: NDArray[np.float32],
        following: NDArray[np.float32],
        masks: NDArray[np.uint8],
        over: NDArray[np.bool_],
    ) -> None:
        places = (self.next + np.arange(len(rows))) % self.capacity
        self.rows[places], self.following[places], self.masks[places] = rows, following, masks
        self.action[places], self.reward[places], self.over[places] = action, reward, over
        self.next = (self.next + len(rows)) % self.capacity
        self.size = min(self.capacity, self.size + len(rows))

    def sample(self, count: int, rng: np.random.Generator) -> tuple[NDArray[Any], ...]:
        k = rng.integers(self.size, size=count)
        return self.rows[k], self.action[k], self.reward[k], self.following[k], self.masks[k], self.over[k]


def scaling(variables: list[Variable]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (offset, scale) so that (x + offset) * scale lies in 0..1 for bounded variables; others stay as they are."""
    offset, scale = np.zeros(len(variables)), np.ones(len(variables))
    for k, variable in enumerate(variables):
        if variable.kind is not Kind.BOOL and variable.lower is not None and variable.upper is not None:
            width = float(variable.upper - variable.lower)
            offset[k], scale[k] = -float(variable.lower), 1.0 / width if width else 1.0
    return offset, scale


def _point(steps: int, ends: NDArray[np.uint8], lengths: NDArray[np.uint32], losses: list[float]) -> CurvePoint:
    count = max(1, len(ends))
    return CurvePoint(
        steps,
        len(ends),
        round(100 * float((ends == End.GOAL).sum()) / count, 2),
        round(100 * float((ends == End.FAIL).sum()) / count, 2),
        round(float(lengths.mean()), 2) if len(lengths) else 0.0,
        round(float(np.mean(losses)), 6) if losses else 0.0,
    )
