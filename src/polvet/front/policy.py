"""A policy for a task: the `Policy` of the front door, and its verbs. Each verb is done by the room that owns it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.budget import stopwatch
from polvet.confirm.outcome import told
from polvet.errors import InputError, Where
from polvet.front.limits import budget_of, threads_of
from polvet.front.objects import Kind, payload_of, table_payload
from polvet.front.results import Evaluation, Fault, Faults, Run, Safe, Simulation, Unknown, Unsafe, with_check
from polvet.front.states import read_states
from polvet.front.workplace import keep_file, new_folder
from polvet.model.infix import dump_expression
from polvet.model.network import Kind as VariableKind
from polvet.model.task import state_to_names
from polvet.policy.binding import Fitted, default_inputs, default_outputs, fit, load_fitted
from polvet.policy.compiled import Bound
from polvet.policy.unit_graph import AnyNetwork
from polvet.records.fault_files import FaultList, read_faults

if TYPE_CHECKING:
    from polvet.front.campaign import Campaign
    from polvet.front.task import Task
    from polvet.model.semantics import State
    from polvet.policy.runs import Run as EngineRun

HINT = (
    "Give a file's path, an XGBoost, LightGBM, scikit-learn, stable-baselines3 or torch object, a function of a state, "
    "a dictionary from states to labels, or an array of scores."
)
MOST_STATES = 20_000_000


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did: faults fixed and left, how much was changed, and whether the policy's library confirms it."""

    figures: Mapping[str, Any]
    left: tuple[str, ...]  # why faults are left, where some are


class Policy:
    """A policy for a task; made by `Task.policy`.

    `file` is where its bytes are (None: a Python function), `object` gives it back as the kind of object it came as.
    """

    def __init__(
        self, task: Task, fitted: Fitted, file: Path | None, kind: Kind | None, given: Any, repair: Repair | None = None
    ) -> None:
        self._task, self._fitted, self._file, self._kind, self._given = task, fitted, file, kind, given
        self._bound: Bound | None = None
        self._repair = repair

    @property
    def task(self) -> Task:
        """The task it is for."""
        return self._task

    @property
    def inputs(self) -> tuple[str, ...]:
        """The variables it reads, in its order."""
        return tuple(self._fitted.policy.inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The labels it chooses among, in its order."""
        return tuple(self._fitted.policy.outputs)

    @property
    def digest(self) -> str | None:
        """The SHA-256 of the bytes that `save` writes; None for a Python function."""
        return self._fitted.sha256

    @property
    def file(self) -> Path | None:
        """Where its bytes are; None for a Python function."""
        return self._file

    @property
    def repaired(self) -> Repair | None:
        """What the repair did that this policy came out of; None where it came out of none."""
        return self._repair

    @property
    def object(self) -> Any:
        """The policy as the kind of object it came as: a booster as a booster, a module as a module, a path as a path."""
        if self._file is None:
            return self._given
        if self._kind is None:
            return self._file
        return self._kind.restore(self._file.read_bytes(), self._given)

    def __repr__(self) -> str:
        name = self._kind.name if self._kind is not None else type(self._fitted.policy).__name__
        return f"Policy({name}, reads {len(self.inputs)} variables, chooses among {len(self.outputs)} labels)"

    @property
    def bound(self) -> Bound:
        """The policy as engines take it: compiled together with the task's network."""
        from polvet.policy.compiled import compile_policy

        if self._bound is None:
            self._bound = compile_policy(self._fitted)
        return self._bound

    def act(self, state: Any) -> str | None:
        """Return the label chosen in the state; None where the run ends, is stuck or only silent moves are left."""
        (one,) = self._states(state)
        moves = self._semantics().moves(one)
        applicable = {move.label for move in moves if move.label is not None}
        return self._fitted.choose(one, applicable) if applicable else None

    def scores(self, state: Any) -> dict[str, float]:
        """Return the score of each output in the state."""
        (one,) = self._states(state)
        found = self._fitted.policy.scores(self._fitted.row(one))[0]
        return {name: float(score) for name, score in zip(self.outputs, found.tolist(), strict=True)}

    def evaluate(
        self,
        starts: int = 1_000,
        runs: int = 100,
        *,
        max_steps: int = 10_000,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        workers: int | str | None = None,
        seed: int = 0,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Evaluation:
        """Return %Unsafe and %Goal over start states, by search where it fits and by `runs` runs of each start."""
        from polvet.debug.evaluate import evaluate, evaluation_figures, evaluation_starts

        bound = self.bound
        sample = evaluation_starts(bound.task, starts, seed)
        within = budget_of(time_limit, memory_limit, max_states or MOST_STATES, progress)
        found = evaluate(
            bound, sample, runs=runs, max_steps=max_steps, seed=seed, threads=threads_of(workers), budget=within
        )
        figures = evaluation_figures(found)
        return Evaluation(
            figures, None, None if found.limit is None else str(found.limit), figures["unsafe_percent"],
            figures["goal_percent"], tuple(figures["unsafe_percent_interval"]), tuple(figures["goal_percent_interval"]),
            found.ends,
        )  # fmt: skip

    def simulate(
        self,
        runs: int = 10,
        *,
        state: Any = None,
        max_steps: int = 10_000,
        time_limit: float | None = None,
        workers: int | str | None = None,
        seed: int = 0,
    ) -> Simulation:
        """Return runs of the policy from a state, or from start states drawn uniformly."""
        import random

        from polvet.kernel.starts import Starts
        from polvet.policy.runs import End, simulate, trace

        bound = self.bound
        budget = budget_of(time_limit)
        if state is not None:
            starts = self._states(state) * runs
        else:
            known = Starts.of(bound.task, budget)
            if known.count == 0:
                raise InputError("no state satisfies the start condition.", Where("start"), "Weaken it.")
            starts = known.sample(runs, random.Random(seed), budget=budget)
        batch = simulate(
            bound, bound.compiled.pack(starts), max_steps=max_steps, seed=seed, threads=threads_of(workers),
            budget=budget,
        )  # fmt: skip
        made = tuple(
            self._named(trace(bound, starts[k], k, max_steps=max_steps, seed=seed))
            for k in range(runs)
            if batch.ends[k] != End.UNFINISHED
        )
        ends = {end.text: batch.count(end) for end in End if batch.count(end)}
        reason = None if batch.limit is None else str(batch.limit)
        return Simulation({"runs": runs, "steps": batch.steps}, None, reason, ends, made)

    def verify(
        self,
        method: str = "auto",
        *,
        avoid: str | None = None,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        workers: int | str | None = None,
        seed: int = 0,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Safe | Unsafe | Unknown:
        """Return Safe with a certificate, Unsafe with an executed run, or Unknown with the limit that was reached."""
        from polvet.confirm.confirmation import about_policy, confirm
        from polvet.verify import verdicts
        from polvet.verify.certificates import certificate_of
        from polvet.verify.portfolio import verify

        bound = self.bound if avoid is None else self._avoiding(avoid)
        spent, budget = stopwatch(), budget_of(time_limit, memory_limit, max_states, progress)
        found = verify(bound, method=method, seed=seed, threads=threads_of(workers), budget=budget)
        figures = {**found.figures, "method": found.method, "policy": self._fitted.describe()}
        certificate = certificate_of(bound, found, budget)
        about = about_policy(bound.task, self._file, self._fitted.sha256)
        checked = confirm(f"{found.verdict.value} policy", certificate, about, found=spent(), budget=budget)
        match found:
            case verdicts.Safe():
                return with_check(Safe(figures, certificate, None, found.method), checked)
            case verdicts.Unsafe(run):
                return with_check(Unsafe(figures, certificate, None, found.method, self._named(run)), checked)
            case verdicts.Unknown():
                proved = tuple(dump_expression(region) for region in found.proved_starts)
                return Unknown(figures, certificate, found.reason, found.method, proved)

    def faults(
        self,
        *,
        runs: Sequence[Run] | None = None,
        budget: int = 100_000,
        max_steps: int = 10_000,
        max_states: int | None = None,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        workers: int | str | None = 1,
        seed: int = 0,
        progress: bool | Callable[[int, int], Any] = False,
    ) -> Faults:
        """Return the safe states where the policy's action may lead out of safety: all there are, or those on given runs."""
        from polvet.debug.everywhere import find_everywhere
        from polvet.debug.faults import find_faults, refuse_foreign_runs
        from polvet.fuzz.packed import PackedRuns
        from polvet.records.run_files import run_from_json
        from polvet.safety.decide import Decider

        bound = self.bound
        threads = threads_of(workers)
        decider = Decider(bound.task, threads=threads)
        within = budget_of(time_limit, memory_limit, max_states or MOST_STATES, progress)
        if runs is not None:
            given = [
                run_from_json(bound.task, run.to_dict(), Where("runs").at(number)) for number, run in enumerate(runs)
            ]
            packed = PackedRuns.of(bound, given)
            refuse_foreign_runs(bound, packed)
            found, how = find_faults(bound, decider, packed, budget=within), "on the given runs"
        else:
            found, how = find_everywhere(
                bound, decider, budget=within, tries=budget, max_steps=max_steps, seed=seed, threads=threads
            )
        listed = FaultList(found.faults, bound.task.sha256, self._fitted.sha256, found.exhaustive)
        reason = None if found.limit is None else str(found.limit)
        if reason is None and found.near_ties:
            reason = f"near-tie in {found.near_ties} states"
        figures = {**found.figures, "how": how}
        return self._faults(listed, figures, reason)

    def repair(
        self,
        faults: Faults | str | Path,
        *,
        method: str = "auto",
        mode: str = "safe",
        keep_runs: int = 200,
        max_goal_loss: float = 1.0,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Policy:
        """Return the policy with the faults fixed and as little else changed as can be; `repaired` says what was done."""
        from polvet.policy.save import save_policy
        from polvet.repair.confirmed import confirm_repair
        from polvet.repair.keep import goal_states
        from polvet.repair.library import repair_checked, repair_figures
        from polvet.repair.repair import Options

        bound = self.bound
        if self._file is None or self._fitted.by_execution:
            raise InputError(
                "a Python function cannot be repaired.",
                Where("policy"),
                "Repair the network, trees or table behind it.",
            )
        listed = self._listed(faults)
        spent, within = stopwatch(), budget_of(time_limit)
        how = Options(method, mode, max_goal_loss=max_goal_loss / 100, seed=seed)
        made, agreement = repair_checked(
            self._fitted, listed.faults,
            replace(how, keep=goal_states(bound, keep_runs, seed=seed, budget=within) if keep_runs else ()),
            budget=within, compiled=bound.compiled,
        )  # fmt: skip
        target = new_folder() / f"policy{self._file.suffix}"
        save_policy(made.policy, target)
        _, checked = confirm_repair(self._fitted, made, target, found=spent(), budget=within)
        done = Repair(
            {**repair_figures(made, agreement), **told(checked)}, tuple(sorted({left.reason for left in made.left}))
        )
        return self._again(target, done)

    def debug(
        self,
        folder: str | Path,
        *,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        workers: int | str | None = None,
        progress: bool | Callable[[Mapping[str, Any]], Any] = False,
        **settings: Any,
    ) -> Campaign:
        """Return the campaign: fuzz, find faults, repair, verify, until it is safe; everything is kept in the folder.

        Called again with the same folder it goes on where it stopped. `settings` are those of `polvet debug`: `seed`, `starts`,
        `runs`, `fuzz_runs`, `max_steps`, `max_states`, `iterations`, `method`, `mode`, `keep`, `max_goal_loss`, `verify`.
        """
        from polvet.front.campaign import run_campaign

        if self._file is None or self._fitted.by_execution:
            raise InputError(
                "a Python function cannot be repaired.", Where("policy"), "Debug the network, trees or table behind it."
            )
        return run_campaign(self, self._file, folder, settings, time_limit, memory_limit, threads_of(workers), progress)

    def save(self, path: str | Path) -> Path:
        """Write the policy in the format it came in: the very bytes that were verified; a network as ONNX where that is the ending."""
        if self._file is None or self._fitted.by_execution:
            raise InputError(
                "a Python function has no file format.", Where(str(path)), "Save the network, trees or table behind it."
            )
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".onnx" != self._file.suffix and isinstance(self._fitted.policy, AnyNetwork):
            from polvet.policy.save import save_policy

            save_policy(self._fitted.policy, target)
            return target
        shutil.copyfile(self._file, target)
        return target

    def reopen(self, file: Path) -> Policy:
        """Return the policy in another file, which came out of this one by a repair, as the same kind of object."""
        return self._again(file, None)

    def _again(self, file: Path, repair: Repair | None) -> Policy:
        fitted = load_fitted(self._task.model_task, file)
        return Policy(self._task, fitted, file, self._kind, self._given, repair)

    def _avoiding(self, avoid: str) -> Bound:
        """Return the policy in the task in which these count as unsafe, too."""
        from polvet.policy.compiled import compile_policy
        from polvet.sources import parse_avoid

        fitted = self._fitted
        wanted = parse_avoid(avoid, Where("avoid"))
        return compile_policy(replace(fitted, task=replace(fitted.task, avoid=wanted)))

    def _semantics(self) -> Any:
        return self.bound.compiled.semantics

    def _states(self, given: Any) -> list[State]:
        found = read_states(self._fitted.task.network, given)
        if len(found) != 1:
            raise InputError(f"{len(found)} states are given.", Where("state"), "Give one.")
        return found

    def _named(self, run: EngineRun) -> Run:
        model = self._fitted.task.network.model
        states = tuple(state_to_names(self._fitted.task.network, state) for state in run.states)
        return Run(states, run.actions, run.end.text, dict(model.metadata))

    def _faults(self, listed: FaultList, figures: Mapping[str, Any], reason: str | None) -> Faults:
        def named(state: State) -> Mapping[str, Any]:
            return state_to_names(self._fitted.task.network, state)

        shown = tuple(
            Fault(named(one.state), one.action, one.safe_actions, tuple(map(named, one.unsafe_outcomes)))
            for one in listed.faults
        )
        return Faults(figures, None, reason, shown, listed.exhaustive, (self._fitted.task, listed))

    def _listed(self, given: Any) -> FaultList:
        if isinstance(given, Faults):
            _, listed = given.source
            if listed.policy_sha256 != self._fitted.sha256:
                raise InputError(
                    "these are faults of another policy.", Where("faults"), "Repair the policy that they were found in."
                )
            return listed  # type: ignore[no-any-return]
        if isinstance(given, str | Path):
            return read_faults(self._fitted.task, given)
        raise InputError(
            f"a {type(given).__name__} is no list of faults.",
            Where("faults"),
            "Give what Policy.faults() returns, or a file.",
        )


def open_policy(task: Task, what: Any, mode: str | None = None) -> Policy:
    """Return the policy that is given as a file or an object."""
    if isinstance(what, Policy):
        what = what.file if what.file is not None else what.object
    if mode is not None:
        task = task.with_mode(mode)
    if isinstance(what, str | Path):
        path = Path(what)
        return Policy(task, load_fitted(task.model_task, path), path, None, what)
    if isinstance(what, Mapping) or hasattr(what, "__array__"):
        payload = table_payload(what, default_inputs(task.model_task), default_outputs(task.model_task))
    elif (known := payload_of(what)) is not None:
        payload = known
    elif callable(what):
        return Policy(task, _fit_function(task, what), None, None, what)
    else:
        raise InputError(f"a {type(what).__name__} is no policy.", Where("policy"), HINT)
    file = keep_file(f"policy{payload.suffix}", payload.data)
    return Policy(task, load_fitted(task.model_task, file), file, payload.kind, what)


def _fit_function(task: Task, function: Callable[[Any], Any]) -> Fitted:
    from polvet.policy.callables import CallablePolicy

    network = task.model_task.network
    booleans = frozenset(variable.name for variable in network.variables if variable.kind is VariableKind.BOOL)
    made = CallablePolicy(default_inputs(task.model_task), default_outputs(task.model_task), function, booleans)
    return replace(fit(task.model_task, made, Where("policy")), sha256=None)
