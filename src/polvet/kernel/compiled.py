"""A compiled network: packs, unpacks and expands states, enumerates what is reachable, builds the sparse matrix."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from polvet import _core
from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, ModelError
from polvet.kernel.lower import Reward, lower
from polvet.kernel.starts import Starts
from polvet.model.arithmetic import Value
from polvet.model.expressions import Expression
from polvet.model.network import Kind, Network
from polvet.model.semantics import Semantics, State

Words = NDArray[np.uint64]


class Compiled:
    """A network as the kernel runs it, with the way back to states as tuples."""

    def __init__(
        self,
        network: Network,
        *,
        conditions: Sequence[Expression] = (),
        rewards: Sequence[Reward] = (),
        budget: Budget = UNLIMITED,
    ) -> None:
        self.network = network
        data = lower(network, conditions=conditions, rewards=rewards, budget=budget)
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

    def initial(self, budget: Budget = UNLIMITED) -> Words:
        """Return the initial states, packed."""
        return self.pack_starts(Starts.initial(self.network, budget), budget=budget)

    def pack_starts(self, starts: Starts, limit: int | None = None, budget: Budget = UNLIMITED) -> Words:
        """Return all states of a finite set (at most `limit`), packed."""
        blocks = [self.machine.pack(block) for block in starts.blocks(limit, budget)]
        return np.concatenate(blocks) if blocks else np.zeros((0, self.program.words), dtype=np.uint64)

    def explore(
        self,
        initial: Words | None = None,
        *,
        build: bool = False,
        parents: bool = False,
        stop_at: Sequence[int] = (),
        budget: Budget = UNLIMITED,
        policy: _core.BoundPolicy | None = None,
        threads: int = 1,
    ) -> _core.Space:
        """Return the reachable states; `build` also keeps the sparse matrix, `stop_at` names conditions that end runs.

        With a policy bound to this program, only what it chooses (and silent operators) is followed. The states, their numbers and
        the matrix are the same for any number of threads.

        A model that breaks a rule raises a ModelError; limits do not raise: look at the space's `status`.
        """
        if initial is None:
            initial = self.initial(budget)
        space = _core.Space(
            self.program,
            initial,
            build,
            parents,
            list(stop_at),
            budget.left(),
            budget.most_bytes,
            budget.most_states,
            budget.on_progress,
            policy,
            threads,
        )
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
            f"a computation fails ({what}) in state {semantics.show(state)}.",
            self.network.model.where,
            "Use smaller numbers or guard the operation.",
        )


def describe_limit(space: _core.Space, budget: Budget) -> LimitReached | None:
    """Return the limit at which the exploration stopped, if it did."""
    return limit_of(space.status, budget)


def limit_of(status: _core.Status, budget: Budget) -> LimitReached | None:
    """Return the limit at which a kernel stopped, if it did."""
    match status:
        case _core.Status.TIME:
            return budget.reached("time")
        case _core.Status.MEMORY:
            return budget.reached("memory")
        case _core.Status.STATES:
            return budget.reached("states")
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
