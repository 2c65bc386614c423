"""`polvet generalizes`: whether a general policy reaches the goal in all problems given, and is proved to end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from polvet.cli.options import Answering, Chance, Domain, Output
from polvet.cli.parameters import Argument, Option

if TYPE_CHECKING:
    from polvet.front.general import Refuted


def generalizes(
    policy: Annotated[Path, Argument(metavar="POLICY", help="A sketch: rules over features, in lines or brackets.")],
    problems: Annotated[list[Path], Argument(metavar="PROBLEM...", help="Problems of the domain, in PDDL.")],
    limits: Chance,
    answering: Answering,
    domain: Domain = None,
    features: Annotated[
        Path | None,
        Option("--features", help="A Python file with functions that are features, by name; it is executed."),
    ] = None,
    output: Output = None,
) -> int:
    """Follow a general policy's rules on PDDL problems. Example: `polvet generalizes policy.txt p1.pddl p2.pddl --domain domain.pddl`.

    holds (0): in each problem given every run of the rules ends in the goal, and the rules are proved to end from every valuation
    of their features. refuted (10): the first problem in which they do not, with the run. unknown (20): neither.
    """
    from polvet.front.general import Generalizing, Refuted
    from polvet.front.general import generalizes as ask

    with answering.watch("generalizes", "following the rules", limits) as within:
        result = ask(policy, *problems, domain=domain, features=features, output=output, **within)
    if isinstance(result, Refuted):
        written = [] if result.written is None else [f"  certificate (general-refuted): {result.written}"]
        return answering.say(result, [*_run_lines(result), *written])
    rows = result.problems if isinstance(result, Generalizing) else result.more["problems"]
    lines = [f"  {one['problem']}: {one['states']} states, runs of at most {one['longest_run']} steps" for one in rows]
    if isinstance(result, Generalizing):
        lines.append("  the rules end from every valuation of their features (lex-rank)")
        assert result.certificate is not None
        lines += [] if result.written is None else [f"  certificate ({result.certificate['kind']}): {result.written}"]
    return answering.say(result, lines)


def _run_lines(result: Refuted) -> list[str]:
    """Return the run, a state and its features to a line, with the actions between."""
    lines = []
    for number, (state, values) in enumerate(zip(result.run.states, result.valuations, strict=True)):
        shown = ", ".join(f"{name}={value}" for name, value in values.items())
        back = f"  <- back to {result.back_to}" if result.back_to is not None and number == len(result.run) else ""
        lines.append(f"  {number}  {' '.join(state) or '(nothing)'}   [{shown}]{back}")
        lines += [f"     {action}" for action in result.run.actions[number : number + 1]]
    return lines
