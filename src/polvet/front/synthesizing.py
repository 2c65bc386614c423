"""Policies that surely end in the goal, which a ranking proves: of qualitative numeric planning problems, or of rules or edges."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from polvet.confirm.outcome import NO_KIND
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Figures
from polvet.front import arguments
from polvet.front.limits import Chance, Work
from polvet.front.plans import Undecided
from polvet.front.result import Result, why, write_certificate_to
from polvet.verdict import Verdict


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Solved(Result):
    """There is a policy: `policy` is its document (`rules/1`), `policy_file` where it was written; the certificate is its ranking."""

    policy: Mapping[str, Any] = field(default_factory=dict, repr=False)
    policy_file: str | None = None
    verdict: ClassVar[Verdict] = Verdict.SOLVED

    def _more(self) -> Mapping[str, Any]:
        return {"policy": dict(self.policy) if self.policy_file is None else self.policy_file}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Unsolvable(Result):
    """No policy surely ends in the goal, with memory or without; or no choice among the candidates."""

    verdict: ClassVar[Verdict] = Verdict.IMPOSSIBLE


def synthesize(
    problem: str | os.PathLike[str],
    *,
    policy: str | os.PathLike[str] | None = None,
    goal: str | None = None,
    start: str | None = None,
    output: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    **limits: Any,
) -> Solved | Unsolvable | Undecided:
    """Return a policy of a `.qnp` problem that surely ends in the goal, with its ranking, or that there is none.

    `policy` are rules that are to be followed wherever they are open: a partial plan. `output` names a file for the policy, `certificate`
    one for the ranking. With a `goal` the problem is a sketch or a plan, and some of its rules or edges are chosen; those of `policy`
    stay, and only executions from `start` count.
    """
    from polvet.files import read_text, write_whole
    from polvet.front.selecting import Wish, select
    from polvet.policy.finite_memory.qnp import build_from_qnp, parse_qnp, parse_rules
    from polvet.system import memory_limited
    from polvet.termination.arena import build_arena
    from polvet.termination.certificates import confirmed
    from polvet.termination.decide import terminates
    from polvet.termination.plan_rules import policy_document
    from polvet.termination.synthesis import synthesize as search
    from polvet.termination.verdicts import Terminating

    work, file = Work.begin(limits, Chance), arguments.path(problem, "problem")
    if goal is not None:
        wish = Wish(file, None if policy is None else Path(policy), goal, start)
        places = [None if one is None else Path(one) for one in (output, certificate)]
        return select(wish, work, *places)
    if start is not None:
        raise InputError(
            "a .qnp problem has its own start.", Where("start"), "Give --goal, too, with a sketch or a plan."
        )
    known = parse_qnp(read_text(file), Where(str(file)))
    fixed = () if policy is None else parse_rules(known, read_text(Path(policy)), Where(str(policy)))
    if any(rule.memory is not None or rule.following is not None for rule in fixed):
        raise InputError(
            "the rules of a partial plan have no memory.", Where(str(policy)), "Remove 'memory' and 'next'."
        )
    figures: Figures = {}
    with memory_limited(work.budget.megabytes), TemporaryDirectory() as folder:
        try:
            work.tell("looking for a policy")
            arena = build_arena(known, fixed, work.budget)
            figures["control_states"] = len(arena.nodes)
            answer = search(arena, work.budget)
        except LimitReached as limit:
            return Undecided(**why(limit), figures=figures, method="search", **work.account())
        figures["won"] = answer.won
        if answer.chosen is None:
            reason = "no policy surely ends in the goal, with memory or without"
            return Unsolvable(reason=reason, figures=figures, confirmation=NO_KIND, **work.account())
        figures["rules"] = len((document := policy_document(known, arena, answer.chosen))["rules"])
        text = json.dumps(document, ensure_ascii=False, indent=1) + "\n"
        place = Path(folder) / "policy.json" if output is None else Path(output)
        write_whole(place, text)
        proof = terminates(build_from_qnp(known, text, Where(str(place)), work.budget), budget=work.budget)
        if not isinstance(proof, Terminating):  # Sieve and the complete test agree: only a limit comes between them
            reason = f"a policy was found, but no ranking: {getattr(proof, 'reason', '')}"
            return Undecided(reason=reason, limit=getattr(proof, "limit", None), figures=figures, **work.account())
        target = None if certificate is None else Path(certificate)
        claim, checked = confirmed(
            "solved",
            {**(proof.certificate or {}), "kind": "solves"},
            file,
            place,
            found=work.spent(),
            budget=work.budget,
            output=target,
        )
    return Solved(
        figures=figures,
        certificate=claim,
        confirmation=checked,
        written=write_certificate_to(target, claim),
        source=answer,
        policy=document,
        policy_file=None if output is None else str(output),
        **work.account(),
    )
