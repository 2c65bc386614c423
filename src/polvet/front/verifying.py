"""Verification as people ask for it: the verdict with its evidence, and where it is asked for a bound on the probability."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polvet.errors import Where
from polvet.files import Json
from polvet.front.limits import Work
from polvet.front.result import write_certificate_to
from polvet.front.results import Safe, Unknown, Unsafe
from polvet.model.infix import dump_expression
from polvet.verdict import Verdict
from polvet.verify import verdicts

if TYPE_CHECKING:
    from polvet.front.policy import Policy
    from polvet.verify.method import Method


def verify_policy(
    policy: Policy, method: str | Method, probability: bool, output: Path | None, work: Work
) -> Safe | Unsafe | Unknown:
    """Return the verdict on the policy, with a certificate that was checked, or a run."""
    from polvet.confirm.confirmation import about_policy, confirm
    from polvet.verify.box_system import Parallelism
    from polvet.verify.certificates import certificate_of
    from polvet.verify.portfolio import verify
    from polvet.verify.probability import find_risk

    bound, budget = policy.bound, work.budget
    threads = work.threads_here()
    with work.cluster() as elsewhere:
        result = verify(
            bound,
            method=method,
            seed=work.chance,
            threads=threads,
            workers=elsewhere,
            budget=budget.share(0.5) if probability else budget,
        )
    figures = {**result.figures, "method": result.method, **_beside(policy)}
    risk = None
    if probability:
        risk = find_risk(bound, budget=budget, seed=work.chance, parallelism=Parallelism(threads))
        figures |= {"probability_lower": risk.lower, "probability_upper": risk.upper, "probability_method": risk.method}
    certificate = certificate_of(bound, result, budget)
    about = about_policy(bound.task, policy.file, policy.digest, policy.function)
    checked = confirm(
        f"{result.verdict.value} policy", certificate, about, found=work.spent(), budget=budget, output=output
    )
    fields: Json = {
        "figures": figures,
        "certificate": certificate,
        "method": result.method,
        "source": (result, risk),
        "confirmation": checked,
        "written": write_certificate_to(output, certificate),
        **work.account(),
    }
    match result:
        case verdicts.Safe():
            return Safe(**fields)
        case verdicts.Unsafe(run):
            return Unsafe(run=policy.named(run), proved_starts=_proved(result), **fields)
        case verdicts.Unknown():
            limit = result.limit or ("time" if budget.is_over() else None)
            return Unknown(reason=result.reason, limit=limit, proved_starts=_proved(result), **fields)


def verify_risk(policy: Policy, max_risk: str | float, output: Path | None, work: Work) -> Safe | Unsafe | Unknown:
    """Return whether runs of the policy fail with probability at most `max_risk`, with a certificate that was checked."""
    from polvet.confirm.confirmation import about_policy, confirm
    from polvet.confirm.outcome import NotChecked
    from polvet.safety.bound import parse_risk
    from polvet.verify.box_system import Parallelism
    from polvet.verify.risk_bound import judge_risk

    bound, budget = policy.bound, work.budget
    most = parse_risk(max_risk, Where("max_risk"))
    judgement = judge_risk(bound, most, budget=budget, seed=work.chance, parallelism=Parallelism(work.threads_here()))
    about = about_policy(bound.task, policy.file, policy.digest, policy.function)
    verdict, certificate = judgement.verdict, judgement.certificate
    checked = confirm(f"{verdict.value} risk", certificate, about, found=work.spent(), budget=budget, output=output)
    unproved = NotChecked("no certificate of it was found, only bounds in floating point")
    fields: Json = {
        "figures": {**judgement.figures, "method": judgement.method, **_beside(policy)},
        "certificate": certificate,
        "method": judgement.method,
        "source": judgement,
        "confirmation": unproved if certificate is None and verdict is not Verdict.UNKNOWN else checked,
        "written": write_certificate_to(output, certificate),
        **work.account(),
    }
    match verdict:
        case Verdict.SAFE:
            return Safe(**fields)
        case Verdict.UNSAFE:
            return Unsafe(**fields)
        case _:
            return Unknown(reason=judgement.reason or "the risk is not known", limit=judgement.limit, **fields)


def _beside(policy: Policy) -> Json:
    """Return how the policy was read, and the limit on steps without which the verdict holds."""
    limit = policy.task.model_task.max_steps
    return {"policy": policy.fitted.describe()} | ({} if limit is None else {"without_max_steps": limit})


def _proved(result: verdicts.Unsafe | verdicts.Unknown) -> tuple[str, ...]:
    return tuple(dump_expression(region) for region in result.proved_starts)
