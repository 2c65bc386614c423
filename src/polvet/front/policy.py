"""A policy for a task: the `Policy` of the front door, and its verbs. Each verb is done by the room that owns it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, Where
from polvet.files import Json
from polvet.front.arguments import count, path, steps
from polvet.front.limits import Chance, Crowd, TimedChance, TimedCrowd, Work
from polvet.front.method_options import MethodOptions, method_with
from polvet.front.objects import Kind, payload_of, table_payload
from polvet.front.result import Run, why
from polvet.front.results import (
    Comparison,
    Evaluation,
    Faults,
    Fence,
    Fuzzing,
    Repair,
    Safe,
    Simulation,
    Unknown,
    Unsafe,
)
from polvet.front.states import read_states
from polvet.front.workplace import keep_file
from polvet.model.task import state_to_names
from polvet.policy.agents import check_predictions
from polvet.policy.binding import Fitted, default_inputs, default_outputs, fit_function, load_fitted
from polvet.policy.compiled import Bound, compile_policy
from polvet.policy.functions import named_function
from polvet.policy.unit_graph import AnyNetwork
from polvet.records.fault_files import FaultList, read_faults

if TYPE_CHECKING:
    from polvet.front.campaign import Campaign
    from polvet.front.region import SafeRegion
    from polvet.front.task import Task
    from polvet.model.semantics import State
    from polvet.policy.runs import Run as EngineRun

HINT = (
    "Give a file's path, an XGBoost, LightGBM, scikit-learn, stable-baselines3 or torch object, a function of a state, "
    "a dictionary from states to labels, or an array of scores."
)
MOST_STATES = 20_000_000
MOST_COMPARED = 5_000_000


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
    def function(self) -> Callable[[Any], Any] | None:
        """The Python function that it is, where it is one in memory: it has no file."""
        return self._given if self._file is None else None

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
    def fitted(self) -> Fitted:
        """The policy fitted to the task: what its inputs and outputs are there."""
        return self._fitted

    @property
    def bound(self) -> Bound:
        """The policy as engines take it: compiled together with the task's network."""
        return self.compiled_within(UNLIMITED)

    def compiled_within(self, budget: Budget) -> Bound:
        """Return `bound`; a limit that comes first raises LimitReached."""
        if self._bound is None:
            self._bound = compile_policy(self._fitted, budget)
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
        scores = self._fitted.policy.scores(self._fitted.row(one))[0]
        return {name: float(score) for name, score in zip(self.outputs, scores.tolist(), strict=True)}

    def evaluate(
        self,
        starts: int = 1_000,
        runs: int = 100,
        *,
        exclude: str | Path | None = None,
        max_steps: int | None = None,
        **limits: Unpack[Crowd],
    ) -> Evaluation:
        """Return %Unsafe and %Goal over start states, by search where it fits and by `runs` runs of each start.

        Runs have at most `max_steps` steps (absent: as the world allows, else 10,000); %Unsafe is about runs of any length.
        First states of the states or runs in the file `exclude` are left out.
        """
        from polvet.front.running import evaluate_policy

        work = Work.begin(limits, Crowd, max_states=MOST_STATES)
        starts, runs = count(starts, "starts"), count(runs, "runs")
        return evaluate_policy(self, starts, runs, exclude, steps(max_steps), work)

    def simulate(
        self, runs: int = 10, *, state: Any = None, max_steps: int | None = None, **limits: Unpack[TimedCrowd]
    ) -> Simulation:
        """Return runs of the policy from a state, or from start states drawn uniformly; `max_steps` as for `evaluate`."""
        from polvet.front.running import simulate_policy

        work, runs = Work.begin(limits, TimedCrowd), count(runs, "runs")
        return simulate_policy(self, runs, None if state is None else self._states(state), steps(max_steps), work)

    def fuzz(
        self,
        runs: int = 20_000,
        *,
        unsafe_runs: int = 10_000,
        tries: int = 4,
        round: int = 512,
        stop_when: str | None = None,
        unbiased: bool = False,
        whole: bool = False,
        max_steps: int = 10_000,
        output: str | Path | None = None,
        **limits: Unpack[TimedCrowd],
    ) -> Fuzzing:
        """Return unsafe runs of the policy, shrunk (but for `whole`); with `output` written there, where the same call goes on."""
        from polvet.front.running import fuzz_policy
        from polvet.fuzz.anytime import parse_stop_rule
        from polvet.fuzz.rounds import RoundOptions, Target

        work = Work.begin(limits, TimedCrowd)
        runs, max_steps = count(runs, "runs"), count(max_steps, "max_steps")
        target = Target(runs, unsafe_runs, None if stop_when is None else parse_stop_rule(stop_when))
        options = RoundOptions(work.chance, round, tries, max_steps, not unbiased)
        return fuzz_policy(
            self, target, options, work, shrink=not whole, output=None if output is None else Path(output)
        )

    def verify(
        self,
        method: str = "auto",
        *,
        avoid: str | None = None,
        probability: bool = False,
        max_risk: str | float | None = None,
        region: bool = False,
        output: str | Path | None = None,
        **limits: Unpack[MethodOptions],
    ) -> Safe | Unsafe | Unknown | SafeRegion:
        """Return Safe with a certificate, Unsafe with an executed run, or Unknown with the limit that was reached.

        With `probability` the figures also bound the greatest probability of failing; `output` names a file for the certificate.
        With `max_risk` (such as "0.05", read exactly) safe means that this probability is at most so much, unsafe that it is more.
        With `region` the answer is a SafeRegion: the start states from which no run fails, as a condition, and what is left of them.
        `predicates` and `configuration` are those of policy predicate abstraction, `max_steps`
        is the greatest length that bmc or unrolling looks at.
        """
        from polvet.front.verifying import verify_policy, verify_risk

        policy = self if avoid is None else open_policy(_avoiding(self._task, avoid), self)
        work = Work.begin(limits, MethodOptions)
        chosen = method_with(method, policy.bound.task.network, limits)
        target = None if output is None else Path(output)
        if region:
            if chosen != "auto" or probability or max_risk is not None:
                what = "a region is a question of its own."
                hint = "Leave out --method and its options, --probability and --max-risk."
                raise InputError(what, Where("region"), hint)
            from polvet.front.region import verify_region

            return verify_region(policy, target, work)
        if max_risk is not None:
            if chosen != "auto":
                what = "a single method knows no bound on the risk."
                raise InputError(what, Where("method"), "Leave --method and its options, or --max-risk out.")
            return verify_risk(policy, max_risk, target, work)
        return verify_policy(policy, chosen, probability, target, work)

    def faults(
        self,
        *,
        kind: str = "safety",
        goal_chance: str | float = 1,
        max_risk: str | float | None = None,
        delta: str | float = 0,
        runs: Sequence[Run] | str | Path | None = None,
        budget: int = 100_000,
        max_steps: int = 10_000,
        **limits: Unpack[Crowd],
    ) -> Faults:
        """Return the states where the policy's action may lead out of safety: all there are, or those on given runs.

        With the `kind` "goal": where it gives up that the goal can be reached safely, with probability `goal_chance`. With
        `max_risk`: where it raises the least risk of failing by more than `delta`, or above that bound (docs/semantics.md).
        """
        from polvet.debug.questions import Question
        from polvet.front.faulting import find_policy_faults

        work = Work.begin({"workers": 1, **limits}, Crowd, max_states=MOST_STATES)
        question = Question.of(kind, goal_chance, max_risk, delta)
        return find_policy_faults(self, question, runs, work, tries=budget, max_steps=max_steps)

    def repair(
        self,
        faults: Faults | str | Path,
        *,
        method: str = "auto",
        repair_mode: str = "safe",
        keep: str | Path | None = None,
        keep_runs: int = 200,
        max_goal_loss: float = 1.0,
        solver: str = "highs",
        certificate: str | Path | None = None,
        output: str | Path | None = None,
        **limits: Unpack[TimedChance],
    ) -> Policy:
        """Return the policy with the faults fixed and as little else changed as can be; `repaired` says what was done.

        Kept are the choices in the states of the file `keep`, or of `keep_runs` runs that reach the goal. `output` names a file for
        the policy, in the format of its ending, `certificate` one for the scores before and after in each fault. Goal faults are
        never mended at the cost of safety: where that made a new safety fault, this is repaired as well, or the repair is refused.
        """
        from polvet.front.faulting import repair_policy
        from polvet.repair.repair import Options

        work = Work.begin(limits, TimedChance)
        how = Options(method, repair_mode, max_goal_loss=max_goal_loss / 100, seed=work.chance, solver=solver)
        if certificate is not None and output is None:
            raise InputError("a certificate speaks about a policy's file.", Where("certificate"), "Add -o POLICY.")
        kept = keep_runs if keep is None else Path(keep)
        named = (None if output is None else Path(output), None if certificate is None else Path(certificate))
        return repair_policy(self, self.listed(faults), how, kept, work, *named)

    def fence(
        self, *, certificate: str | Path | None = None, output: str | Path | None = None, **limits: Unpack[TimedChance]
    ) -> Fence:
        """Return the policy with every action forbidden that may leave the safe region, and the proof that it is safe.

        `output` names a file for the policy, `certificate` one for the proof.
        """
        from polvet.front.faulting import fence_policy

        return fence_policy(self, Work.begin(limits, TimedChance), certificate, output)

    def compare(self, new: Any, *, starts: int | None = None, **limits: Unpack[Chance]) -> Comparison:
        """Return where a new policy chooses differently, over all start states, or over `starts` random ones."""
        from polvet.kernel.starts import Starts
        from polvet.repair.compare import compare

        work, bound = Work.begin(limits, Chance, max_states=MOST_COMPARED), self.bound
        after = open_policy(self._task, new)
        drawn = None
        if starts is not None:
            sample = Starts.of(bound.task, work.budget).sample(starts, random.Random(work.chance), budget=work.budget)
            drawn = list(dict.fromkeys(sample))
        comparison = compare(self._fitted, after.fitted, starts=drawn, compiled=bound.compiled, budget=work.budget)
        return Comparison(
            figures=comparison.figures, source=(bound.task, comparison), **why(comparison.limit), **work.account()
        )

    def debug(
        self,
        folder: str | Path,
        *,
        time_limit: float | None = None,
        memory_limit: int | None = None,
        workers: int | str | None = None,
        progress: bool | Callable[[Json], Any] = False,
        **settings: Any,
    ) -> Campaign:
        """Return the campaign: fuzz, find faults, repair, verify, until it is safe; everything is kept in the folder.

        Called again with the same folder it goes on where it stopped. `settings` are those of `polvet debug`: `seed`, `starts`,
        `runs`, `fuzz_runs`, `max_steps`, `max_states`, `iterations`, `method`, `repair_mode`, `keep`, `max_goal_loss`, `verify`,
        `kind`, `goal_chance`, `max_risk`, `delta`.
        """
        from polvet.front.campaign import run_campaign

        limits = {"time_limit": time_limit, "memory_limit": memory_limit}
        if "within" in settings:
            limits["within"] = settings.pop("within")
        work = Work.begin({**limits, "workers": workers}, Crowd, seed=settings.get("seed", 0))
        return run_campaign(self, self.own_file("Debug"), path(folder, "folder"), settings, work, progress)

    def save(self, path: str | Path) -> Path:
        """Write the policy in the format it came in: the very bytes that were verified; a network as ONNX where that is the ending."""
        from polvet.files import read_bytes, write_whole

        file, target = self.own_file("Save", str(path)), Path(path)
        if target.suffix == ".onnx" != file.suffix and isinstance(self._fitted.policy, AnyNetwork):
            from polvet.policy.save import save_policy

            save_policy(self._fitted.policy, target)
            return target
        write_whole(target, read_bytes(file))
        return target

    def reopen(self, file: Path, repair: Repair | None = None) -> Policy:
        """Return the policy in another file, which came out of this one (by the repair), as the same kind of object."""
        fitted = load_fitted(self._task.model_task, file)
        return Policy(self._task, fitted, file, self._kind, self._given, repair)

    def named(self, run: EngineRun) -> Run:
        """Return the run by names."""
        world = dict(self._fitted.task.network.model.metadata)
        return Run(tuple(map(self.names, run.states)), run.actions, run.end.text, world)

    def listed(self, states: Any) -> FaultList:
        """Return the faults that are given as `Policy.faults` returned them, or in a file."""
        if isinstance(states, Faults):
            listed: FaultList = states.listed()
            if listed.policy_sha256 != self._fitted.sha256:
                raise InputError(
                    "these are faults of another policy.", Where("faults"), "Repair the policy that they were found in."
                )
            return listed
        if isinstance(states, str | Path):
            return read_faults(self._fitted.task, states)
        raise InputError(
            f"a {type(states).__name__} is no list of faults.",
            Where("faults"),
            "Give what Policy.faults() returns, or a file.",
        )

    def own_file(self, verb: str, place: str = "policy") -> Path:
        """Return the file; a function has none, so that it can be neither saved nor repaired."""
        if self._file is None or named_function(self._file) is not None:
            what = "has no file format" if verb == "Save" else "cannot be repaired"
            raise InputError(
                f"a Python function {what}.", Where(place), f"{verb} the network, trees or table behind it."
            )
        return self._file

    def _semantics(self) -> Any:
        return self.bound.compiled.semantics

    def names(self, state: State) -> Mapping[str, Any]:
        """Return the state by names."""
        return state_to_names(self._fitted.task.network, state)

    def _states(self, given: Any) -> list[State]:
        states = read_states(self._fitted.task.network, given)
        if len(states) != 1:
            raise InputError(f"{len(states)} states are given.", Where("state"), "Give one.")
        return states


def _avoiding(task: Task, avoid: str) -> Task:
    """Return the task in which these count as unsafe, too."""
    from polvet.front.task import Task
    from polvet.sources import parse_avoid

    return Task(replace(task.model_task, avoid=parse_avoid(avoid, Where("avoid"))), task.shown)


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
        return Policy(task, fit_function(task.model_task, what), None, None, what)
    else:
        raise InputError(f"a {type(what).__name__} is no policy.", Where("policy"), HINT)
    file = keep_file(f"policy{payload.suffix}", payload.data)
    fitted = load_fitted(task.model_task, file)
    if payload.kind is not None and payload.kind.predict is not None:
        check_predictions(fitted, task.shown, payload.kind.predict(what))
    return Policy(task, fitted, file, payload.kind, what)
