"""`polvet verify TASK POLICY`: safe with a certificate, unsafe with a run, or unknown with what was proved."""

from __future__ import annotations

import json as json_text
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polvet.budget import stopwatch
from polvet.choices import listed
from polvet.cli.answer import Answer, ExitCode
from polvet.cli.limits import budget_of, raised
from polvet.cli.options import Json, LogJson, MemoryLimit, Mode, Output, PolicyFile, Seed, TimeLimit, Workers
from polvet.cli.progress import watching
from polvet.cli.simulate import policy_lines
from polvet.cli.tasks import (
    Constants,
    Domain,
    Fail,
    Goal,
    MaxStates,
    OutOfBounds,
    Start,
    TaskFile,
    is_cluster,
    task_options,
    threads_of,
    workers_of,
)  # fmt: skip
from polvet.verify.methods import METHODS

if TYPE_CHECKING:
    from polvet.policy.compiled import Bound
    from polvet.verify.probability import Risk
    from polvet.verify.verdicts import SafetyResult

MANY_THREADS = 1 << 16
MOST_SHOWN = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify")(verify)


def verify(
    task: TaskFile,
    policy: PolicyFile,
    domain: Domain = None,
    method: Annotated[
        str, typer.Option("--method", help=f"{listed(METHODS.words)}, or one that another package brings.")
    ] = "auto",
    avoid: Annotated[
        str, typer.Option("--avoid", help="What is unsafe besides fail: stuck, deadlock, or both with a comma.")
    ] = "",
    probability: Annotated[
        bool,
        typer.Option(
            "--probability",
            help="Also bound the greatest probability of failing: by explicit search, else by abstraction.",
        ),
    ] = False,
    mode: Mode = None,
    constants: Constants = "",
    start: Start = None,
    fail: Fail = None,
    goal: Goal = None,
    out_of_bounds: OutOfBounds = "error",
    max_states: MaxStates = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    workers: Workers = "all",
    seed: Seed = 0,
    output: Output = None,
    log_json: LogJson = None,
    json: Json = False,
) -> int:
    """Verify a policy. Example: `polvet verify line.toml policy.json -o certificate.json`.

    All threads of --workers search, and answer batches of questions about boxes of states; a Ray cluster gets the hard questions
    (projection, induction, abstraction, ic3), the rest stays here. The verdict and its evidence do not depend on who answers.
    """
    from polvet.confirm.confirmation import about_policy, confirm
    from polvet.policy.binding import load_fitted
    from polvet.policy.compiled import compile_policy
    from polvet.sources import load_task
    from polvet.verify.certificates import certificate_of
    from polvet.verify.portfolio import verify as verify_policy
    from polvet.verify.verdicts import Unknown, Unsafe

    spent = stopwatch()
    fitted = load_fitted(
        load_task(task, task_options(constants, start, fail, goal, out_of_bounds, mode, avoid, domain)), policy
    )
    bound = compile_policy(fitted)
    threads = threads_of("all" if is_cluster(workers) else workers, MANY_THREADS)
    budget = budget_of(time_limit, memory_limit, max_states)
    with workers_of(workers) as elsewhere, watching("verify", "verifying", log_json) as progress:
        found = verify_policy(
            bound, method=method, seed=seed, threads=threads, workers=elsewhere,
            budget=(budget.share(0.5) if probability else budget).told(progress),
        )  # fmt: skip
    certificate = certificate_of(bound, found, budget)
    about = about_policy(bound.task, policy, fitted.sha256)
    checked = confirm(f"{found.verdict.value} policy", certificate, about, found=spent(), budget=budget, output=output)
    figures = {**found.figures, "method": found.method, "policy": fitted.describe()}
    lines = [*_lines(bound, found), *policy_lines(fitted, policy)]
    if probability:
        from polvet.verify.box_system import Power
        from polvet.verify.probability import find_risk

        risk = find_risk(bound, budget=budget, seed=seed, power=Power(threads))
        figures |= {"probability_lower": risk.lower, "probability_upper": risk.upper, "probability_method": risk.method}
        lines.insert(1, f"probability  of failing, at worst: {risk.lower:.9g} to {risk.upper:.9g}{_explained(risk)}")
    more: dict[str, Any] = {}
    if isinstance(found, Unknown | Unsafe) and found.proved_starts:
        more["proved_starts"] = _proved(found)
    shown: Any = certificate
    if output is not None and certificate is not None:
        from polvet.files import write_whole

        write_whole(output, json_text.dumps(certificate, ensure_ascii=False) + "\n")
        lines.append(f"written      {output} ({certificate['kind']})")
        shown = str(output)
    code = {"safe": ExitCode.DONE, "unsafe": ExitCode.FOUND, "unknown": ExitCode.UNKNOWN}[found.verdict.value]
    reason = None
    if isinstance(found, Unknown):
        reason = raised(found.reason, found.limit or ("time" if budget.is_over() else None))
    return Answer(
        found.verdict.value, code, spent(), figures, lines, reason, seed, shown, more, checked
    ).show(as_json=json)  # fmt: skip


def _explained(risk: Risk) -> str:
    """Return how the probability was bounded, where that is not by explicit search to the end."""
    if risk.method == "explicit":
        return "" if risk.limit is None else f" ({risk.limit})"
    over = ", ".join(risk.variables)
    return f" (by an abstraction with {risk.states:,} states over {over}; explicit search: {risk.limit})"


def _proved(found: Any) -> list[str]:
    from polvet.model.infix import dump_expression

    return [dump_expression(region) for region in found.proved_starts]


def _lines(bound: Bound, found: SafetyResult) -> list[str]:
    from polvet.verify.verdicts import Unknown, Unsafe

    figures = found.figures
    lines = [f"method       {found.method}"]
    told = [f"{figures[key]:,} {name}" for key, name in
            (("starts", "starts"), ("states", "states"), ("transitions", "transitions"), ("near_ties", "near ties"))
            if isinstance(figures.get(key), int)]  # fmt: skip
    if told:
        lines.append(f"searched     {', '.join(told)}")
    if figures.get("left_out"):
        lines.append(f"left out     {', '.join(figures['left_out'])} (nothing depends on them)")
    if isinstance(found, Unsafe):
        lines.append(f"run          {len(found.run.actions):,} steps to {found.run.end.text}")
        semantics = bound.compiled.semantics
        states = found.run.states
        lines.append(f"  start      {semantics.show(states[0])}")
        for k, (action, state) in enumerate(zip(found.run.actions, states[1:], strict=True)):
            if k < MOST_SHOWN - 1 or k == len(found.run.actions) - 1:
                lines.append(f"  {action or '(silent)'} -> {semantics.show(state)}")
            elif k == MOST_SHOWN - 1:
                lines.append(f"  ... {len(found.run.actions) - MOST_SHOWN:,} more")
    if isinstance(found, Unknown | Unsafe) and found.proved_starts:
        regions = _proved(found)
        lines.append(f"proved       {len(regions):,} start regions")
        lines += [f"  {region}" for region in regions[:MOST_SHOWN]]
    return lines
