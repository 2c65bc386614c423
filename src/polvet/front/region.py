"""From which starts is it safe? A proved region of start states as a condition, the rest with unsafe runs or open.

For a policy (`verify_region`): no run of it from the region fails. For a task (`decide_region`): some policy avoids `fail` from there.
The certificate (kind `safe-region`) speaks of the start states in the region and of no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.front.limits import Work
from polvet.front.result import Result, Run, write_certificate, write_certificate_to
from polvet.model.expressions import conjunction, disjunction, negation
from polvet.model.infix import dump_expression
from polvet.model.network import Network
from polvet.model.task import Task
from polvet.records.start_regions import NamedBox, Region, Volume, condition_of_box, region_json
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.front.deciding import Question
    from polvet.front.policy import Policy

LISTED = 20
"""Boxes that are not proved which a document lists with their runs."""


@dataclass(frozen=True, slots=True)
class Rest:
    """Start states that are not proved safe: a condition, with an unsafe run from one of them where one is known."""

    condition: str
    run: Run | None = None
    reason: str | None = None  # why they are open
    starts: int | None = None
    unsafe: bool = True  # False: open

    def to_dict(self) -> Json:
        """Return it as documents list it."""
        document: Json = {"condition": self.condition, "starts": self.starts}
        if self.run is not None:
            document |= {"steps": len(self.run), "run": self.run.to_dict()}
        return document if self.unsafe else {**document, "reason": self.reason}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class SafeRegion(Result):
    """The start states that are proved safe, as a `condition` (None: there are none), and the `rest`.

    The verdict speaks of all start states: SAFE where nothing is left, UNSAFE where a start is known to fail, else UNKNOWN.
    """

    method: str = ""
    condition: str | None = None
    rest: tuple[Rest, ...] = field(default=(), repr=False)
    starts: int | None = None  # how many there are; None: too many to be counted
    proved: int | None = None
    estimate: float | None = field(default=None, repr=False)  # of the share that is proved, where it was not counted
    volume: Volume | None = None  # of real-valued start states: which shares are proved, unsafe and open

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return what is known of all start states."""
        if any(one.unsafe for one in self.rest):
            return Verdict.UNSAFE
        return Verdict.SAFE if not self.rest and self.condition is not None else Verdict.UNKNOWN

    @property
    def share(self) -> float | None:
        """Return which share of the start states is proved safe, counted, or estimated from drawn ones; None: not known."""
        if self.condition is None:
            return 0.0
        if not self.rest:
            return 1.0
        if self.volume is not None:
            return self.volume.proved
        return self.proved / self.starts if self.proved is not None and self.starts else self.estimate

    @property
    def unsafe(self) -> tuple[Rest, ...]:
        """The parts of the rest in which starts are known to fail."""
        return tuple(one for one in self.rest if one.unsafe)

    @property
    def open(self) -> tuple[Rest, ...]:
        """The parts of the rest of which nothing is known."""
        return tuple(one for one in self.rest if not one.unsafe)

    def _more(self) -> Mapping[str, Any]:
        return {
            "region": {
                "condition": self.condition,
                "starts": self.starts,
                "proved": self.proved,
                "share": self.share,
                **({} if self.volume is None else {"volume": asdict(self.volume)}),
                "unsafe": [one.to_dict() for one in self.unsafe[:LISTED]],
                "unsafe_parts": len(self.unsafe),
                "open": [one.to_dict() for one in self.open[:LISTED]],
                "open_parts": len(self.open),
            }
        }

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for one in self.rest:
            row = one.to_dict()
            row.pop("run", None)
            yield {"unsafe": one.unsafe, **row}


def verify_region(policy: Policy, output: Path | None, work: Work) -> SafeRegion:
    """Return from which start states the policy is safe, with a certificate that was checked."""
    from polvet.confirm.confirmation import about_policy, confirm
    from polvet.verify.certificates import certificate_of
    from polvet.verify.safe_starts import find_safe_starts
    from polvet.verify.verdicts import Unsafe

    bound, budget = policy.bound, work.budget
    if names := bound.task.avoid.names:
        what = f"a region is about fail, not about {' and '.join(names)}."
        raise InputError(what, Where("--avoid"), "Leave --avoid out, or ask without --region.")
    with work.cluster() as elsewhere:
        starts, certificate = find_safe_starts(
            bound, budget=budget, seed=work.chance, threads=work.threads_here(), workers=elsewhere
        )
    verdict = "safe policy" if starts.is_everything else "safe region"
    if certificate is None and (run := next((one.run for one in starts.rest if one.run is not None), None)) is not None:
        certificate, verdict = certificate_of(bound, Unsafe(run, starts.method)), "unsafe policy"
    about = about_policy(bound.task, policy.file, policy.digest, policy.function)
    checked = confirm(verdict, certificate, about, found=work.spent(), budget=budget, output=output)
    rest = tuple(
        Rest(
            _text(bound.task.network, one.box),
            None if one.run is None else policy.named(one.run),
            one.reason,
            one.starts,
            one.run is not None,
        )
        for one in starts.rest
    )
    is_open = starts.reason if any(not one.unsafe for one in rest) or not rest else None
    return SafeRegion(
        figures={**starts.figures, "method": starts.method, "policy": policy.fitted.describe()},
        certificate=certificate,
        method=starts.method,
        source=starts,
        confirmation=checked,
        condition=None if starts.proof is None else _condition(bound.task.network, starts),
        rest=rest,
        starts=starts.starts,
        proved=starts.proved,
        estimate=starts.figures.get("proved_share_of_drawn"),
        volume=starts.volume,
        reason=None if any(one.unsafe for one in rest) or starts.is_everything else is_open or "nothing was proved",
        written=write_certificate_to(output, certificate),
        **work.account(),
    )


def decide_region(task: Task, question: Question, work: Work) -> SafeRegion:
    """Return from which start states some policy avoids `fail`, as a condition; both sides with certificates that were checked."""
    from polvet.confirm.confirmation import about_task, confirm
    from polvet.confirm.outcome import worst
    from polvet.front.deciding import decide_unproved
    from polvet.safety import Decider, prove
    from polvet.safety.confirmed import confirm_states
    from polvet.safety.regions import tell_apart

    # `output` is the certificate's here; answers are not kept.
    _, decided, _ = decide_unproved(task, replace(question, output=None), work)
    region = tell_apart(task, question.states, decided.safe, budget=work.budget)
    prover = Decider(task, algorithm="lazy", share=True)
    paths: dict[str, str] = {}
    certificate, checked = None, None
    safe = [state for state, one in zip(question.states, decided.safe, strict=True) if one]
    lost = [state for state, one in zip(question.states, decided.safe, strict=True) if one is False]
    if safe:
        proof = prove(prover, safe, Verdict.SAFE, budget=work.budget)
        certificate = _of_region(proof, region)
        place = question.output or (None if question.certificates is None else question.certificates / "safe.json")
        checked = confirm(
            "safe region", certificate, about_task(task), found=work.spent(), budget=work.budget, output=place
        )
        if place is not None:
            paths["safe"] = str(write_certificate(certificate, place))
    if lost:
        place = None if question.certificates is None else question.certificates / "unsafe.json"
        if certificate is None and question.output is not None:
            place = question.output
        ranked, outcome = confirm_states(
            task,
            "unsafe",
            lost,
            partial(prove, prover, verdict=Verdict.UNSAFE, budget=work.budget),
            found=work.spent(),
            budget=work.budget,
            output=place,
        )
        checked = worst(checked, outcome)
        certificate = certificate or ranked
        if place is not None:
            paths["unsafe"] = str(write_certificate(ranked, place))
    rest = tuple(
        Rest(_text(task.network, one.box), None, one.reason, one.starts, one.reason is None) for one in region.rest
    )
    figures = {name: value for name, value in decided.figures.items() if name != "states"}
    return SafeRegion(
        figures=figures,
        certificate=certificate,
        method=question.algorithm,
        source=decided,
        confirmation=checked,
        condition=_condition(task.network, region) if safe else None,
        rest=rest,
        starts=region.starts,
        proved=region.proved,
        reason=None if lost else decided.reason,
        limit=None if lost else decided.limit,
        written=paths or None,
        **work.account(),
    )


def _of_region(proof: Mapping[str, Any], region: Region) -> Json:
    """Return the certificate about the states of a region that this one about single states makes."""
    head = {key: value for key, value in proof.items() if key not in ("kind", "start", "states", "avoids")}
    body = {key: value for key, value in proof.items() if key in ("kind", "start", "states", "avoids")}
    return {"kind": "safe-region", **head, "region": region_json(region), "proof": body}


def _text(network: Network, box: NamedBox) -> str:
    return dump_expression(condition_of_box(network, box))


def _condition(network: Network, region: Region) -> str:
    parts = [condition_of_box(network, box) for box in region.boxes]
    if region.side == "in":
        return dump_expression(disjunction(*parts))
    return dump_expression(conjunction(*(negation(part) for part in parts)))
