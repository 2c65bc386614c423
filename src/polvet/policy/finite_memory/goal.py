"""Goals over control states and counters, such as `state == q2 && x == 0 || state == done`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from polvet.errors import InputError, Where, did_you_mean
from polvet.policy.finite_memory.build import parse_guard
from polvet.policy.finite_memory.fmp import Atom, FiniteMemoryPolicy

_OR, _AND = re.compile(r"\|\||\s+or\s+"), re.compile(r"&&|\s+and\s+")
_STATE = re.compile(r"\s*state\s*(==|=|!=)\s*(\S.*?)\s*")


@dataclass(frozen=True, slots=True)
class Case:
    """One way to satisfy a goal: be in one of the control states, with all comparisons true."""

    states: frozenset[str]
    atoms: tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Goal:
    """A disjunction of cases."""

    text: str
    cases: tuple[Case, ...]

    def holds(self, state: str, valuation: Mapping[str, int]) -> bool:
        """Return whether the configuration satisfies the goal."""
        return any(
            state in case.states and all(atom.holds(valuation[atom.variable]) for atom in case.atoms)
            for case in self.cases
        )


def parse_goal(text: str, fmp: FiniteMemoryPolicy) -> Goal:
    """Return the goal: cases joined by || or "or", of comparisons joined by && or "and"; `state == NAME` names a control state."""
    where = Where("--goal")
    known = frozenset(fmp.control_states)
    names = {variable.name for variable in fmp.variables}
    cases = []
    for part in _OR.split(text):
        states = known
        atoms: list[Atom] = []
        for item in _AND.split(part):
            match = _STATE.fullmatch(item)
            if match is None:
                (conjunction,) = parse_guard(item, where)  # SOUND: all of the text counts, no case is left out
                atoms += conjunction
                continue
            operator, state = match.groups()
            if state not in known:
                raise InputError(f"no control state '{state}'.", where, did_you_mean(state, known) or "See the file.")
            states = states - {state} if operator == "!=" else states & {state}
        for atom in atoms:
            if atom.variable not in names:
                hint = did_you_mean(atom.variable, names) or f"Variables: {', '.join(sorted(names))}."
                raise InputError(f"no variable '{atom.variable}'.", where, hint)
        cases.append(Case(states, tuple(atoms)))
    return Goal(text, tuple(cases))
