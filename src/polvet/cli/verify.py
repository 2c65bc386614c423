"""`polvet verify TASK POLICY`: safe with a certificate, unsafe with a run, or unknown with what was proved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from polvet.choices import listed
from polvet.cli.options import Answering, Avoid, Crowd, MaxRisk, Output, Subject
from polvet.cli.parameters import Option
from polvet.verify.methods import CONFIGURATIONS, METHODS

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


@dataclass(frozen=True, kw_only=True)
class MethodChoice:
    """Which method verifies, and what one method reads besides the task."""

    method: Annotated[str, Option("--method", help=f"{listed(METHODS.words)}, or one that another package brings.")] = (
        "auto"
    )
    predicates: Annotated[
        Path | None,
        Option("--predicates", help="Policy predicate abstraction over these alone: a file, one condition a line."),
    ] = None
    configuration: Annotated[
        str | None,
        Option(
            "--configuration",
            help=f"Who answers the abstraction's questions: {listed(CONFIGURATIONS)}. Only boxes prove; others give their word.",
        ),
    ] = None
    max_steps: Annotated[
        int | None,
        Option("--max-steps", min=0, help="The greatest length that bmc and unrolling look at (default: 20)."),
    ] = None

    def keywords(self) -> Mapping[str, Any]:
        """Return the options that are given, as the front door takes them."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def verify(
    subject: Suspect,
    choice: MethodChoice,
    limits: Crowd,
    answering: Answering,
    probability: Annotated[
        bool,
        Option(
            "--probability",
            help="Also bound the greatest probability of failing: by explicit search, else by abstraction.",
        ),
    ] = False,
    max_risk: MaxRisk = None,
    region: Annotated[
        bool,
        Option("--region", help="From which starts is it safe? What can be proved as a condition, the rest with runs."),
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
        result = policy.verify(
            **choice.keywords(), probability=probability, max_risk=max_risk, region=region, output=output, **within
        )
    if isinstance(result, SafeRegion):
        lines = region_lines(result)
    else:
        lines = _risk_lines(result.source) if max_risk is not None else _lines(policy.bound, result)
    if (limit := policy.task.max_steps) is not None:
        lines.append(f"steps        of any number: the world's limit of {limit:,} is not used")
    lines += subject.lines(policy)
    if result.written is not None and result.certificate is not None:
        lines.append(f"written      {output} ({result.certificate['kind']})")
    return answering.say(result, lines)


def _risk_lines(judgement: RiskVerdict) -> list[str]:
    ties = f", {judgement.near_ties:,} near ties" if judgement.near_ties else ""
    return [
        f"method       {judgement.method}",
        f"risk         {judgement.says}",
        f"searched     {judgement.states:,} states{ties}",
    ]


def _explained(risk: Risk) -> str:
    """Return how the probability was bounded, where that is not by explicit search to the end."""
    if risk.method == "explicit":
        return "" if risk.limit is None else f" ({risk.limit})"
    over = ", ".join(risk.variables)
    return f" (by an abstraction with {risk.states:,} states over {over}; explicit search: {risk.limit})"


def _lines(bound: Bound, result: Safe | Unsafe | Unknown) -> list[str]:
    from polvet.model.options import ENVIRONMENT
    from polvet.verify import verdicts

    verdict, risk = result.source
    figures = verdict.figures
    lines = [f"method       {verdict.method}"]
    if risk is not None:
        lines.append(f"probability  of failing, at worst: {risk.lower:.9g} to {risk.upper:.9g}{_explained(risk)}")
    counts = [key for key in ("starts", "states", "transitions", "near_ties") if isinstance(figures.get(key), int)]
    if counts:
        shown = (f"{figures[key]:,} {key.replace('_', ' ')}" for key in counts)
        lines.append(f"searched     {', '.join(shown)}")
    if (environment := figures.get("environment")) is not None:
        lines.append(f"reading      {ENVIRONMENT[environment]}")
    if figures.get("left_out"):
        lines.append(
            f"left out     {', '.join(figures['left_out'])} (nothing depends on them; errors in computing them are not looked for)"
        )
    if isinstance(verdict, verdicts.Unsafe):
        held = verdict.closed is not None and "environment" in verdict.closed
        how = " that the environment may keep up" if held else ""
        lines.append(f"run          {len(verdict.run.actions):,} steps to {verdict.run.end.text}{how}")
        semantics = bound.compiled.semantics
        states = verdict.run.states
        lines.append(f"  start      {semantics.show(states[0])}")
        for k, (action, state) in enumerate(zip(verdict.run.actions, states[1:], strict=True)):
            if k < MOST_SHOWN - 1 or k == len(verdict.run.actions) - 1:
                lines.append(f"  {action or '(silent)'} -> {semantics.show(state)}")
            elif k == MOST_SHOWN - 1:
                lines.append(f"  ... {len(verdict.run.actions) - MOST_SHOWN:,} more")
    if regions := getattr(result, "proved_starts", ()):
        lines.append(f"proved       {len(regions):,} start regions")
        lines += [f"  {region}" for region in regions[:MOST_SHOWN]]
    return lines
