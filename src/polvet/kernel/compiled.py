"""A compiled network: packs, unpacks and expands states, enumerates what is reachable, builds the sparse matrix."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.errors import InputError, LimitReached, ModelError
from polvet.kernel.lower import Reward, lower
from polvet.kernel.starts import Starts
from polvet.model.arithmetic import Value
from polvet.model.expressions import Expression
from polvet.model.network import Kind, Network
from polvet.model.semantics import Semantics, State

Words = NDArray[np.uint64]
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Limits:
    """When to stop: seconds, megabytes, states; None is no limit."""

    seconds: float | None = None
    megabytes: int | None = None
    states: int | None = None
    on_progress: Progress | None = None


class Compiled:
    """A network as the kernel runs it, with the way back to states as tuples."""

    def __init__(
        self,
        network: Network,
        *,
        conditions: Sequence[Expression] = (),
        rewards: Sequence[Reward] = (),
    ) -> None:
        self.network = network
        data = lower(network, conditions=conditions, rewards=rewards)
        self.program = _core.Program.make(data)
        self.machine = _core.Machine(self.program)
        self._kinds = [variable.kind for variable in network.variables]

    @property
    def semantics(self) -> Semantics:
        """Return the slow twin."""
        return Semantics(self.network)

    def pack(self, states: Iterable[State]) -> Words:
        """Return one packed row per state."""
        rows = [[_to_bits(value, kind) for value, kind in zip(state, self._kinds, strict=True)] for state in states]
        values = np.array(rows, dtype=np.int64).reshape(len(rows), len(self._kinds))
        return self.machine.pack(values)

    def unpack(self, words: Words) -> list[State]:
        """Return the states of packed rows."""
        rows = self.machine.unpack(np.ascontiguousarray(words)).tolist()
        return [tuple(_from_bits(bits, kind) for bits, kind in zip(row, self._kinds, strict=True)) for row in rows]

    def initial(self) -> Words:
        """Return the initial states, packed."""
        return self.pack_starts(Starts.initial(self.network))

    def pack_starts(self, starts: Starts, limit: int | None = None) -> Words:
        """Return all states of a finite set (at most `limit`), packed."""
        blocks = [self.machine.pack(block) for block in starts.blocks(limit)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.program.words), dtype=np.uint64)

    def explore(
        self,
        initial: Words | None = None,
        *,
        build: bool = False,
        parents: bool = False,
        stop_at: Sequence[int] = (),
        limits: Limits | None = None,
        policy: _core.BoundPolicy | None = None,
    ) -> _core.Space:
        """Return the reachable states; `build` also keeps the sparse matrix, `stop_at` names conditions that end runs.

        With a policy bound to this program, only what it chooses (and silent operators) is followed.

        A model that breaks a rule raises a ModelError; limits do not raise: look at the space's `status`.
        """
        bounds = limits or Limits()
        if initial is None:
            initial = self.initial()
        space = _core.Space(
            self.program, initial, build, parents, list(stop_at),
            inf if bounds.seconds is None else bounds.seconds,
            2**63 if bounds.megabytes is None else bounds.megabytes * 2**20,
            2**32 if bounds.states is None else bounds.states,
            bounds.on_progress, policy,
        )  # fmt: skip
        if space.status == _core.Status.FAULT:
            state = self.unpack(space.states(space.faulty, space.faulty + 1))[0]
            if space.policy_broken:
                shown = self.semantics.show(state)
                raise InputError(
                    f"a score of the policy is not a number in state {shown}.", hint="Its values overflow there."
                )
            self.explain_fault(state, space.fault)
        if space.status == _core.Status.INTERRUPTED:
            raise KeyboardInterrupt
        return space

    def explain_fault(self, state: State, fault: _core.Fault) -> None:
        """Raise the error that explains why the model cannot go on from the state."""
        semantics = self.semantics
        semantics.moves(state)
        # The interpreter has unbounded integers: an overflow in between shows only in the kernel.
        what = fault.name.lower().replace("_", " ")
        raise ModelError(
            f"a computation fails ({what}) in state {semantics.show(state)}.", self.network.model.where,
            "Use smaller numbers or guard the operation.",
        )  # fmt: skip


def describe_limit(space: _core.Space, limits: Limits) -> LimitReached | None:
    """Return the limit at which the exploration stopped, if it did."""
    match space.status:
        case _core.Status.TIME:
            return LimitReached(f"time limit of {limits.seconds:g} s reached", "--time-limit")
        case _core.Status.MEMORY:
            return LimitReached(f"memory limit of {limits.megabytes} MB reached", "--memory-limit")
        case _core.Status.STATES:
            return LimitReached(f"limit of {limits.states or 2**32 - 2} states reached", "--max-states")
        case _:
            return None


def _to_bits(value: Value, kind: Kind) -> int:
    if kind is Kind.REAL:
        bits: int = struct.unpack("<q", struct.pack("<d", float(value) + 0.0))[0]
        return bits
    return int(value)


def _from_bits(bits: int, kind: Kind) -> bool | int | float:
    if kind is Kind.REAL:
        real: float = struct.unpack("<d", struct.pack("<q", bits))[0]
        return real
    return bool(bits) if kind is Kind.BOOL else bits
