"""Loading a finite-memory policy from a file, whatever of the known formats it is in: told by content, and only its reader is loaded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.files import parse_json, read_text
from polvet.policy.finite_memory.fmp import FiniteMemoryPolicy
from polvet.policy.finite_memory.sketch import Sketch, expand, is_sketch, read_sketch

if TYPE_CHECKING:
    from polvet.policy.finite_memory.features import Features
    from polvet.policy.finite_memory.its import TransitionSystem
    from polvet.policy.finite_memory.qnp import Problem

_QNP = re.compile(r"\s*\S.*\n\s*\d+(\s+\S+\s+[01])+[ \t]*\n")


def is_its(text: str) -> bool:
    """Return whether the text is an integer transition system: KoAT rules or the SMT-LIB form."""
    return text.lstrip().startswith(("(GOAL", "(declare-sort"))


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan as a file holds it: the finite-memory policy, and what it was made of where it is no such policy itself."""

    plan: FiniteMemoryPolicy | None  # None: a sketch, which was not expanded
    system: TransitionSystem | None = None  # an integer transition system, of which the plan is an abstraction
    problem: Problem | None = None  # the .qnp problem that the policy solves
    sketch: Sketch | None = None  # the sketch whose rules the policy follows

    @property
    def features(self) -> Features | None:
        """The features whose patterns the control states are, of a sketch and of a problem."""
        rules = self.sketch or self.problem
        return None if rules is None else rules.features

    def whole(self, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
        """Return the policy; of a sketch, over the patterns of all its features."""
        if self.plan is not None:
            return self.plan
        assert self.sketch is not None
        return expand(self.sketch, budget)


def load_fmp(path: str | Path, *, policy: str | Path | None = None, budget: Budget = UNLIMITED) -> FiniteMemoryPolicy:
    """Return the finite-memory policy in the file; a `.qnp` problem needs its policy in a second file.

    An integer transition system is abstracted: its runs are runs of the policy, but not the other way round.
    """
    return read_plan(path, policy=policy, budget=budget).whole(budget)


def read_plan(path: str | Path, *, policy: str | Path | None = None, budget: Budget = UNLIMITED) -> PlanFile:
    """Return what is in the file, read once; a sketch is left as it is."""
    text = read_text(path)
    where = Where(str(path))
    if text.lstrip()[:1] in ("{", "[") and "->" not in text.lstrip().splitlines()[0]:
        from polvet.policy.finite_memory.fmp_json import parse_fmp

        budget.check()
        return PlanFile(parse_fmp(parse_json(text, where), where, budget))
    if is_its(text):
        from polvet.policy.finite_memory.its import abstract_its
        from polvet.policy.finite_memory.its_text import parse_its

        system = parse_its(text, where)
        return PlanFile(abstract_its(system, budget), system)
    if str(path).endswith(".qnp") or _QNP.match(text):
        if policy is None:
            raise InputError("a .qnp problem needs a policy.", where, "Give its file with --policy.")
        from polvet.policy.finite_memory.qnp import build_from_qnp, parse_qnp

        problem = parse_qnp(text, where)
        return PlanFile(build_from_qnp(problem, read_text(policy), Where(str(policy)), budget), problem=problem)
    if is_sketch(text):
        return PlanFile(None, sketch=read_sketch(text, where))
    from polvet.policy.finite_memory.edge_list import parse_edge_list

    return PlanFile(parse_edge_list(text, where))
