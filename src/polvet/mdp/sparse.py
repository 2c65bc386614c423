"""A Markov decision process in compressed rows: states hold choices, choices hold branches.

Source   Puterman, Markov Decision Processes, 1994, for the words; compressed sparse rows as everywhere.
Differs  probabilities are doubles for speed *and*, where known, exact: `probability_index` numbers a few distinct
         `fractions`.
Cost     12 bytes per branch (16 with exact probabilities), 8 per choice and state.
Limits   2^30 states, 2^32 branches.

The doubles stand for exact probabilities that round to them (each within half a unit in the last place) and sum to 1
in each choice: bounds computed
from them hold for those. A state without choices is a deadlock and absorbing. A DTMC is an MDP whose every state has
at most one choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

import polvet._core as _core
from polvet.errors import InputError

AGAIN = "Correct that array; see docs/mdp.md for the layout."

Uint64s: TypeAlias = NDArray[np.uint64]
Uint32s: TypeAlias = NDArray[np.uint32]
Float64s: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

LEAST_NORMAL = float(np.finfo(np.float64).tiny)
SUM_TOLERANCE = 1e-9


def mask_of(places: Any, size: int) -> Mask:
    """Return the mask of so many entries that is true at these places."""
    mask = np.zeros(size, dtype=np.bool_)
    mask[places] = True
    return mask


@dataclass(frozen=True, slots=True, eq=False)
class SparseMdp:
    """An MDP as arrays: the choices of state s are choice_start[s] .. choice_start[s + 1], their branches likewise.

    >>> coin = SparseMdp.build([[[(1, Fraction(1, 2)), (2, Fraction(1, 2))]], [], []])
    >>> coin.states, coin.choices, coin.branches, coin.is_deterministic
    (3, 1, 2, True)
    """

    choice_start: Uint64s
    branch_start: Uint64s
    target: Uint32s
    probability: Float64s
    initial: Uint32s
    probability_index: Uint32s | None = None
    fractions: tuple[Fraction, ...] | None = None
    rewards: Mapping[str, Float64s] = field(default_factory=dict)
    exact_rewards: Mapping[str, Sequence[Fraction]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        choices: Sequence[Sequence[Sequence[tuple[int, Fraction | float]]]],
        *,
        initial: Sequence[int] = (0,),
        rewards: Mapping[str, Sequence[Fraction | float | int]] | None = None,
    ) -> SparseMdp:
        """Return the MDP whose state s has choices[s], each a list of (target, probability)."""
        choice_start, branch_start, target = [0], [0], []
        distinct: dict[Fraction, int] = {}
        index = []
        for state in choices:
            for choice in state:
                for successor, probability in choice:
                    target.append(successor)
                    index.append(distinct.setdefault(Fraction(probability), len(distinct)))
                branch_start.append(len(target))
            choice_start.append(len(branch_start) - 1)
        fractions = tuple(distinct)
        numbers = np.array(index, dtype=np.uint32)
        exact = {name: tuple(Fraction(x) for x in values) for name, values in (rewards or {}).items()}
        return cls(
            choice_start=np.array(choice_start, dtype=np.uint64),
            branch_start=np.array(branch_start, dtype=np.uint64),
            target=np.array(target, dtype=np.uint32),
            probability=np.array([float(p) for p in fractions], dtype=np.float64)[numbers],
            initial=np.array(initial, dtype=np.uint32),
            probability_index=numbers,
            fractions=fractions,
            rewards={name: np.array([float(x) for x in values], dtype=np.float64) for name, values in exact.items()},
            exact_rewards=exact,
        )

    @property
    def states(self) -> int:
        """How many states there are."""
        return len(self.choice_start) - 1

    @property
    def choices(self) -> int:
        """How many choices there are in all states together."""
        return len(self.branch_start) - 1

    @property
    def branches(self) -> int:
        """How many branches there are in all choices together."""
        return len(self.target)

    @property
    def is_deterministic(self) -> bool:
        """Whether no state has more than one choice: a DTMC."""
        return bool((np.diff(self.choice_start) <= 1).all())

    def owners(self) -> NDArray[np.int64]:
        """Return the state of each choice."""
        return np.repeat(np.arange(self.states), np.diff(self.choice_start).astype(np.int64))

    def expected(self, values: NDArray[Any]) -> Float64s:
        """Return the mean of the states' values after each choice.

        >>> SparseMdp.build([[[(1, 0.5), (2, 0.5)]], [], []]).expected(np.array([0.0, 1.0, 3.0])).tolist()
        [2.0]
        """
        if not self.choices:
            return np.zeros(0)
        return np.asarray(
            np.add.reduceat(self.probability * values[self.target], self.branch_start[:-1].astype(np.int64))
        )

    def from_everywhere(self) -> SparseMdp:
        """Return the same MDP with every state initial."""
        return replace(self, initial=np.arange(self.states, dtype=np.uint32))

    @property
    def is_exact(self) -> bool:
        """Whether every probability is known as a fraction."""
        return self.probability_index is not None and self.fractions is not None

    @property
    def is_too_fine(self) -> bool:
        """Return whether a probability is too small for the solvers that use doubles."""
        return not self.is_exact and len(self.probability) > 0 and 0 < self.probability.min() < LEAST_NORMAL

    def core(self) -> Any:
        """Return the arrays as the kernels take them; nothing is copied when the types fit."""
        if self.is_too_fine:
            # SOUND: the solvers' bounds count on relative errors of a few units, which such doubles do not have.
            raise InputError(f"a probability is below {LEAST_NORMAL:.3g}, too small for doubles.", hint="Use --exact.")
        return _core.MdpModel(
            np.ascontiguousarray(self.choice_start, dtype=np.uint64),
            np.ascontiguousarray(self.branch_start, dtype=np.uint64),
            np.ascontiguousarray(self.target, dtype=np.uint32),
            np.ascontiguousarray(self.probability, dtype=np.float64),
        )

    def validate(self) -> None:
        """Raise an InputError at the first thing wrong: shapes, ranges, probabilities, sums."""
        if len(self.choice_start) == 0 or len(self.branch_start) == 0:
            raise InputError("choice_start and branch_start need at least the entry 0.", hint=AGAIN)
        try:
            model = self.core()
        except ValueError as error:
            raise InputError(f"{error}.", hint=AGAIN) from error
        code, place, number = _core.mdp_validate(model, SUM_TOLERANCE)
        match code:
            case 1:
                raise InputError(f"choice_start falls or leaves its range at state {place}.", hint=AGAIN)
            case 2:
                raise InputError(
                    f"choice {place} has no branch, or branch_start leaves its range.",
                    hint="Drop empty choices; a state without choices is a deadlock.",
                )
            case 3:
                raise InputError(
                    f"branch {place} goes to state {int(number)}, but there are {self.states} states.", hint=AGAIN
                )
            case 4:
                raise InputError(
                    f"branch {place} has probability {number!r}.",
                    hint="Probabilities lie above 0 and not above 1; leave impossible branches out.",
                )
            case 5:
                raise InputError(
                    f"the probabilities of choice {place} sum to {number!r}, not 1.",
                    hint="Make the branches of each choice a distribution.",
                )
        if len(self.initial) == 0 or int(self.initial.max()) >= self.states:
            raise InputError("the initial states are missing or out of range.", hint=f"There are {self.states} states.")
        for name, values in self.rewards.items():
            if len(values) != self.choices:
                raise InputError(
                    f"reward '{name}' has {len(values)} entries, but there are {self.choices} choices.", hint=AGAIN
                )
            if not np.isfinite(values).all():
                raise InputError(
                    f"reward '{name}' of choice {int(np.flatnonzero(~np.isfinite(values))[0])} is not a finite number.",
                    hint=AGAIN,
                )
        for name, exact in self.exact_rewards.items():
            if len(exact) != self.choices:
                raise InputError(
                    f"exact reward '{name}' has {len(exact)} entries, but there are {self.choices} choices.", hint=AGAIN
                )
        self._validate_exact()

    def _validate_exact(self) -> None:
        if self.probability_index is None or self.fractions is None:
            return
        if len(self.probability_index) != self.branches:
            raise InputError(
                f"probability_index has {len(self.probability_index)} entries, but there are {self.branches} branches.",
                hint=AGAIN,
            )
        if self.branches and int(self.probability_index.max()) >= len(self.fractions):
            raise InputError("probability_index points past the end of fractions.", hint=AGAIN)
        nearest = np.array([float(p) for p in self.fractions], dtype=np.float64)[self.probability_index]
        wrong = np.flatnonzero(nearest != self.probability)
        if len(wrong):
            raise InputError(
                f"branch {int(wrong[0])} has probability {self.probability[wrong[0]]!r}, "
                "which is not the double nearest to its fraction.",
                hint=AGAIN,
            )

    def exact_probabilities(self) -> list[Fraction]:
        """Return each branch's probability as a fraction; raise an InputError where a choice does not sum to 1."""
        if self.probability_index is not None and self.fractions is not None:
            table = self.fractions
            result = [table[i] for i in self.probability_index.tolist()]
        else:
            result = [Fraction(p) for p in self.probability.tolist()]
        starts = self.branch_start.tolist()
        for choice in range(self.choices):
            if sum(result[starts[choice] : starts[choice + 1]]) != 1:
                raise InputError(
                    f"the exact probabilities of choice {choice} do not sum to 1.",
                    hint="Exact mode needs exact probabilities: build the model with fractions.",
                )
        return result

    def exact_reward(self, name: str) -> Sequence[Fraction]:
        """Return the named reward of each choice as a fraction, from the doubles where nothing better is known."""
        if name in self.exact_rewards:
            return self.exact_rewards[name]
        return [Fraction(x) for x in self.rewards[name].tolist()]
