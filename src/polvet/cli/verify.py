"""`polvet verify TASK POLICY`: safe with a certificate, unsafe with a run, or unknown with what was proved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from polvet.choices import listed
from polvet.cli.options import Answering, Avoid, Crowd, MaxRisk, Output, Subject
from polvet.verify.methods import METHODS

if TYPE_CHECKING:
    from polvet.front.results import Safe, Unknown, Unsafe
    from polvet.policy.compiled import Bound
    from polvet.verify.probability import Risk
    from polvet.verify.risk_bound import RiskVerdict

MOST_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class Suspect(Subject):
    """The policy to be verified, and what is unsafe besides `fail`."""

    avoid: Avoid = ""


def verify(
    subject: Suspect,
    limits: Crowd,
    answering: Answering,
    method: Annotated[
        str, typer.Option("--method", help=f"{listed(METHODS.words)}, or one that another package brings.")
    ] = "auto",
    probability: Annotated[
        bool,
        typer.Option(
            "--probability",
            help="Also bound the greatest probability of failing: by explicit search, else by abstraction.",
        ),
    ] = False,
    max_risk: MaxRisk = None,
    region: Annotated[
        bool,
        typer.Option(
            "--region", help="From which starts is it safe? What can be proved as a condition, the rest with runs."
        ),
    ] = False,
    output: Output = None,
) -> int:
    """Verify a policy. Example: `polvet verify line.toml policy.json -o certificate.json`.

    All threads of --workers search, and answer batches of questions about boxes of states; a Ray cluster gets the hard questions
    (projection, induction, abstraction, ic3), the rest stays here. The verdict and its evidence do not depend on who answers.
    """
    from polvet.cli.region import region_lines
    from polvet.front.region import SafeRegion

    policy = subject.open()
    with answering.watch("verify", "verifying", limits) as within:
        found = policy.verify(
            method, probability=probability, max_risk=max_risk, region=region, output=output, **within
        )
    if isinstance(found, SafeRegion):
        lines = region_lines(found)
    else:
        lines = _risk_lines(found.source) if max_risk is not None else _lines(policy.bound, found)
    lines += subject.lines(policy)
    if found.written is not None and found.certificate is not None:
        lines.append(f"written      {output} ({found.certificate['kind']})")
    return answering.say(found, lines)


def _risk_lines(found: RiskVerdict) -> list[str]:
    ties = f", {found.near_ties:,} near ties" if found.near_ties else ""
    return [f"method       {found.method}", f"risk         {found.says}", f"searched     {found.states:,} states{ties}"]


def _explained(risk: Risk) -> str:
    """Return how the probability was bounded, where that is not by explicit search to the end."""
    if risk.method == "explicit":
        return "" if risk.limit is None else f" ({risk.limit})"
    over = ", ".join(risk.variables)
    return f" (by an abstraction with {risk.states:,} states over {over}; explicit search: {risk.limit})"


def _lines(bound: Bound, result: Safe | Unsafe | Unknown) -> list[str]:
    from polvet.verify import verdicts

    found, risk = result.source
    figures = found.figures
    lines = [f"method       {found.method}"]
    if risk is not None:
        lines.append(f"probability  of failing, at worst: {risk.lower:.9g} to {risk.upper:.9g}{_explained(risk)}")
    counts = [key for key in ("starts", "states", "transitions", "near_ties") if isinstance(figures.get(key), int)]
    if counts:
        shown = (f"{figures[key]:,} {key.replace('_', ' ')}" for key in counts)
        lines.append(f"searched     {', '.join(shown)}")
    if figures.get("left_out"):
        lines.append(
            f"left out     {', '.join(figures['left_out'])} (nothing depends on them; errors in computing them are not looked for)"
        )
    if isinstance(found, verdicts.Unsafe):
        lines.append(f"run          {len(found.run.actions):,} steps to {found.run.end.text}")
        semantics = bound.compiled.semantics
        states = found.run.states
        lines.append(f"  start      {semantics.show(states[0])}")
        for k, (action, state) in enumerate(zip(found.run.actions, states[1:], strict=True)):
            if k < MOST_SHOWN - 1 or k == len(found.run.actions) - 1:
                lines.append(f"  {action or '(silent)'} -> {semantics.show(state)}")
            elif k == MOST_SHOWN - 1:
                lines.append(f"  ... {len(found.run.actions) - MOST_SHOWN:,} more")
    if regions := getattr(result, "proved_starts", ()):
        lines.append(f"proved       {len(regions):,} start regions")
        lines += [f"  {region}" for region in regions[:MOST_SHOWN]]
    return lines
