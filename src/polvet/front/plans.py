"""Generalized plans: whether every execution ends, whether it ends in the goal, what blocks a proof, how long runs get."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polvet.choices import AUTO
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Json
from polvet.front import arguments
from polvet.front.limits import Chance, Work
from polvet.front.result import Result, write_certificate_to
from polvet.front.result import why as why_of
from polvet.front.results import Unknown
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.policy.finite_memory import FiniteMemoryPolicy
    from polvet.policy.finite_memory.load import PlanFile

HINT = "A .qnp problem's own goal already stops its policy; ask without --goal."


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class PlanResult(Result):
    """What is said of a plan, and what else was asked about it."""

    method: str = ""
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def _more(self) -> Mapping[str, Any]:
        return {"method": self.method, **self.more}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Terminating(PlanResult):
    """Every execution of the plan ends; the certificate is a ranking. With a goal it also ends there: GOAL_REACHING."""

    goal: str | None = None

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return TERMINATING, or GOAL_REACHING where that was asked."""
        return Verdict.TERMINATING if self.goal is None else Verdict.GOAL_REACHING


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Nonterminating(PlanResult):
    """Some execution never ends; the certificate is a lasso."""

    verdict: ClassVar[Verdict] = Verdict.NONTERMINATING


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class GoalMissed(PlanResult):
    """Some execution stops outside the goal; the certificate is that execution."""

    verdict: ClassVar[Verdict] = Verdict.GOAL_MISSED


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Undecided(Unknown):
    """Not decided; the reason names the limit or what was tried."""

    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def _more(self) -> Mapping[str, Any]:
        return {"method": self.method, **self.more}


def terminates(
    plan: str | os.PathLike[str],
    *,
    policy: str | os.PathLike[str] | None = None,
    method: str = AUTO,
    forests: int = 20,
    forest: str | os.PathLike[str] | None = None,
    goal: str | None = None,
    start: str | None = None,
    halting: bool = False,
    why: bool = False,
    bound: bool = False,
    budget: int = 1_000_000,
    output: str | os.PathLike[str] | None = None,
    **limits: Any,
) -> Terminating | Nonterminating | GoalMissed | Undecided:
    """Return whether every execution of a generalized plan ends, from every valuation, with its ranking or lasso.

    `forest` names a file with the elimination forest that GenSieve is to take (`forest/1`); it chooses that method.
    With a `goal` (`state == q2 && x == 0`) every execution must also end there; with a `start` (of the same form) only executions from
    there count. `halting` lists where executions can stop, `why` edges that block a proof, `bound` says how the longest run grows.
    `budget` are steps of path search in GenSieve; `output` names a file for the certificate; the limits are those of all verbs.
    """
    from polvet.policy.finite_memory import dump_fmp
    from polvet.policy.finite_memory.features import contradictions
    from polvet.policy.finite_memory.goal import Case, Region, parse_goal
    from polvet.policy.finite_memory.load import read_plan
    from polvet.policy.finite_memory.projection import project
    from polvet.policy.finite_memory.qnp import dead_ends
    from polvet.policy.finite_memory.sketch import goal_of, region_of
    from polvet.policy.finite_memory.starts import goal_or_no_start, started
    from polvet.system import memory_limited
    from polvet.termination.certificates import confirmed
    from polvet.termination.decide import terminates as decide
    from polvet.termination.forest_file import read_forest
    from polvet.termination.goal import judge_plan
    from polvet.termination.halting import halting_set
    from polvet.termination.its import its_terminates
    from polvet.termination.sketches import sketch_terminates

    work, path = Work.begin(limits, Chance), arguments.path(plan, "plan")
    own = None if forest is None else read_forest(arguments.path(forest, "forest"))
    if own is not None:
        if method not in (AUTO, "gensieve"):
            raise InputError(f"the method {method} takes no forest.", Where("forest"), "Ask for --method gensieve.")
        method = "gensieve"
    chosen = None if policy is None else Path(policy)
    with memory_limited(work.budget.megabytes):
        try:
            read = read_plan(path, policy=chosen, budget=work.budget)
        except LimitReached as limit:
            return Undecided(method=method, **why_of(limit), **work.account())
        regions = {"--goal": goal, "--start": start, "--halting": halting or None}
        if read.problem is not None or read.system is not None:
            for option, value in regions.items():
                if value is not None:
                    what = f"{option} is for finite-memory policies, not for .qnp problems or transition systems."
                    raise InputError(what, hint=HINT)
        goal_text, start_text = goal, start
        if read.sketch is not None and any(value is not None for value in regions.values()):
            whole = read.whole(work.budget)  # refuses a sketch of too many features before they are listed
            goal_text = None if goal is None else goal_of(read.sketch, goal, whole.control_states)
            start_text = region_of(read.sketch, start or "true", whole.initial)
        if read.sketch is not None and method == AUTO and start_text is None:
            termination, abstraction = sketch_terminates(read.sketch, work.budget)
            shown = abstraction or project(read.sketch, ())[0]
            judged = judge_plan(shown, termination, None, work.budget)
        else:
            whole = shown = read.whole(work.budget)
            if start_text is not None:
                shown = started(whole, parse_goal(start_text, whole, "--start"))
            work.tell(control_states=len(shown.control_states), edges=len(shown.edges))
            if read.system is not None:
                termination = its_terminates(read.system, work.budget)
            else:
                termination = decide(
                    shown,
                    method=method,
                    seed=work.chance,
                    forests=forests,
                    most_steps=budget,
                    budget=work.budget,
                    forest=own,
                )
            wanted = None if goal_text is None else parse_goal(goal_text, shown)
            if wanted is not None and start_text is not None:
                wanted = goal_or_no_start(wanted, shown)
            judged = judge_plan(shown, termination, wanted, work.budget)
        proof = judged.certificate
        if proof is not None and start_text is not None:
            proof = {**proof, "start": start_text, "fmp": dump_fmp(whole)}
        if proof is not None and "trace_rounds" in termination.figures:
            # For pictures: the checker reads the ranking.
            proof = {**proof, "rounds": termination.figures["trace_rounds"]}
        target = None if output is None else Path(output)
        certificate, checked = confirmed(
            judged.word, proof, path, chosen, found=work.spent(), budget=work.budget, output=target
        )
    figures = dict(termination.figures)
    trace, rounds = figures.pop("trace", []), figures.pop("trace_rounds", [])
    more: Json = {"trace": trace, "trace_rounds": rounds} if trace else {}
    if read.problem is not None:
        stuck = dead_ends(read.problem, shown)
        more |= {"solves": judged.word == "terminating" and not stuck, "dead_ends": stuck}
    if halting:
        try:
            work.budget.check()
            beside = () if read.features is None else contradictions(read.features, whole.control_states)
            cases = Region("", tuple(Case(frozenset({state}), (atom,)) for state, atom in beside))
            before = None if start_text is None else shown.initial[0]
            more["halting"] = halting_set(shown, cases, work.budget, before=before)
        except LimitReached as limit:
            more |= {"halting": None, "halting_reason": str(limit)}
    more |= _further(read, shown, work, why=why, bound=bound)
    result: Terminating | Nonterminating | GoalMissed | Undecided = _RESULTS[judged.word](
        figures=figures,
        certificate=certificate,
        confirmation=checked,
        written=write_certificate_to(target, certificate),
        reason=judged.reason,
        limit=judged.limit,
        source=(shown, termination),
        method=termination.method,
        more=more,
        **({"goal": goal} if judged.word == "goal-reaching" else {}),
        **work.account(),
    )
    return result


def _further(read: PlanFile, shown: FiniteMemoryPolicy, work: Work, *, why: bool, bound: bool) -> Json:
    """Return what else was asked about the plan; a limit that is reached here is told in its place.

    What blocks a proof is told of the plan that is shown; how long runs get, of all of it.
    """
    from polvet.termination.bound import LongestRun, longest_run
    from polvet.termination.why import find_blocking_edges

    more: Json = {}
    if why:
        try:
            blocking = find_blocking_edges(shown, work.budget)
            more["why"] = None if blocking is None else {"edges": list(blocking.edges), "smallest": blocking.smallest}
        except LimitReached as limit:
            more["why"] = {"edges": None, "reason": str(limit)}
    if bound:
        try:
            growth = longest_run(read.whole(work.budget), budget=work.budget)
        except LimitReached as limit:
            growth = LongestRun("unknown", reason=str(limit))
        more["longest_run"] = {"relation": growth.relation, "exponent": growth.exponent, "reason": growth.reason}
    return more


_RESULTS: dict[str, Callable[..., Any]] = {
    "terminating": Terminating,
    "goal-reaching": Terminating,
    "nonterminating": Nonterminating,
    "goal-missed": GoalMissed,
    "unknown": Undecided,
}
