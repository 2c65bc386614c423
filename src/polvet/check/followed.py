"""A policy followed by a checker: the task with the variables the certificate keeps, and what may be chosen in each state.

A certificate about a policy names `policy_sha256`; `kept` (optional) lists the variables it speaks about, and then everything
that decides runs must read those alone (model/restrict.py checks it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polvet.check.all_starts import check_some_start
from polvet.check.arena import Arena, avoiding_nothing, find_arena
from polvet.check.subjects import Subjects
from polvet.errors import InputError
from polvet.model.semantics import Move, State
from polvet.records.state_json import Malformed

if TYPE_CHECKING:
    from polvet.model.task import Task
    from polvet.policy.binding import Fitted


SHOWN = 3
"""Variables that a claim names; of more it says how many."""


@dataclass(frozen=True, slots=True)
class Step:
    """What a step from a state may do: its moves, and whether the policy may be stuck there."""

    moves: tuple[Move, ...]
    may_stick: bool
    deadlock: bool


@dataclass(frozen=True, slots=True)
class Followed:
    """A policy in the slow interpreter; near ties leave several choices open."""

    arena: Arena
    fitted: Fitted

    def steps(self, states: Sequence[State]) -> Iterator[Step]:
        """Yield for each state outside `fail` and `goal` everything that some float32 evaluation order does there."""
        from polvet.policy.rounding import possible_choices

        network = self.arena.task.network
        names = [network.labels[number] if number >= 0 else None for number in self.fitted.labels]
        moves = [self.arena.moves(state) for state in states]
        applicable = [{move.label for move in mine if move.label is not None} for mine in moves]
        mask = np.array([[name in mine for name in names] for mine in applicable], dtype=np.bool_)
        mask = mask.reshape(len(states), len(names))
        rows = np.concatenate([self.fitted.row(state) for state in states])
        # Where nothing is applicable the policy is not asked.
        places = [k for k, mine in enumerate(applicable) if mine]
        possible = np.zeros_like(mask)
        if places:
            masks = mask[places] if self.fitted.filtered else None
            possible[places] = possible_choices(self.fitted.policy, rows[places], masks)
        for k, mine in enumerate(moves):
            if not applicable[k]:
                yield Step(tuple(mine), False, not mine)
                continue
            taken = {names[i] for i in np.flatnonzero(possible[k] & mask[k])}
            # SOUND: silent operators move whenever some evaluation order is not stuck.
            kept = tuple(move for move in mine if taken and (move.label is None or move.label in taken))
            yield Step(kept, not taken or bool((possible[k] & ~mask[k]).any()), False)


def find_policy_arena(certificate: Mapping[str, Any], subjects: Subjects) -> Followed:
    """Return the policy and the task that the certificate speaks about, over the variables that it keeps.

    It must speak of everything that is to be avoided; it may speak of more.
    """
    avoids = certificate.get("avoids", [])
    if subjects.options is not None:
        wanted = subjects.options.avoid.names
        if not isinstance(avoids, list) or any(name not in avoids for name in wanted):
            raise Malformed(f"it does not say that the policy avoids {' and '.join(wanted)}")
    arena = find_arena(certificate, avoiding_nothing(subjects))
    check_some_start(arena, certificate.get("witness"))  # of all variables, those that are not kept among them
    fitted = find_policy(arena.task, certificate, subjects)
    about = arena.about
    if (kept := certificate.get("kept")) is not None:
        if not isinstance(kept, list) or not all(isinstance(name, str) for name in kept):
            raise Malformed("'kept' is not a list of names")
        from polvet.policy.restrict import restrict_fitted

        try:
            fitted = restrict_fitted(fitted, kept)
        except InputError as error:
            raise Malformed(str(error)) from None
        about += _without([v.name for v in arena.task.network.variables if v.name not in kept])
    return Followed(replace(Arena.of(fitted.task, about, arena.budget), region=arena.region), fitted)


def find_policy(task: Task, certificate: Mapping[str, Any], subjects: Subjects) -> Fitted:
    """Return the policy that the certificate was made for, by its digest; a function in memory has none."""
    if subjects.policy is None:
        raise InputError("the certificate speaks about a policy.", hint="Give it, too (--policy FILE).")
    from polvet.policy.binding import fit_function, load_fitted
    from polvet.policy.identity import policy_sha256

    digest = certificate.get("policy_sha256")
    if subjects.function is not None:
        # SOUND: whatever function the certificate was made for, the claim is about this one: it is asked about every state again.
        if digest is not None:
            raise Malformed("it is about a policy that has a file, not about a Python function in memory")
        return fit_function(task, subjects.function)
    if digest is None and certificate.get("by_execution") is True:
        raise Malformed("it is about a Python function in memory: certify it in Python, and give that function")
    if digest is None or policy_sha256(subjects.policy) != digest:
        raise Malformed(f"{subjects.policy} is not the file the certificate was made for (policy_sha256 differs)")
    return load_fitted(task, subjects.policy)


def _without(names: Sequence[str]) -> str:
    """Return what a claim says of variables that are left out: nothing depends on them, but computing them may be an error."""
    if not names:
        return ""
    shown = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    return f" (errors in computing {shown} aside)"
