"""States decided, as people ask: is one safe, which of many are, from which can the goal be kept in reach, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.budget import stopwatch
from polvet.errors import InputError, LimitReached, Where
from polvet.files import Figures, Json
from polvet.front.limits import Work
from polvet.front.result import Result, why, write_certificate
from polvet.front.results import Safe, Unknown, Unsafe
from polvet.model.options import FAIR
from polvet.model.semantics import State
from polvet.model.task import Task
from polvet.safety.algorithms import ALGORITHMS, DEFAULT
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.safety.game_verdicts import GameVerdicts
    from polvet.verify.won_projection import WonProjection

MOST_STARTS = 1_000_000
SHARPENING_SHARE, WON_SHARE = 0.5, 0.3
"""Shares of the time for smaller games: before the search, and for evidence of what they win."""
AROUND = 10_000
"""States that cells of real values are laid around."""
FILES = {
    "safe": "safe.json",
    "safe by projection": "safe-by-projection.json",
    "unsafe": "unsafe.json",
    "strong-cyclic": "strong-cyclic.json",
    "not-strong-cyclic": "no-strong-cyclic.json",
}
TRUTH = {"safe": True, "unsafe": False, "unknown": None}
ONE: dict[str, type[Safe] | type[Unsafe] | type[Unknown]] = {"safe": Safe, "unsafe": Unsafe, "unknown": Unknown}


@dataclass(frozen=True, slots=True)
class Question:
    """The states that are asked about, and how they are decided; `alone`: one state, not a list of one."""

    states: Sequence[State]
    alone: bool = False
    algorithm: str = DEFAULT
    order: str = "app"
    policy: Any = None  # of the order 'policy'
    share: bool | None = None
    radius: int | None = None
    output: Path | None = (
        None  # of many states the answers, kept so that the same question goes on there; of one the certificate
    )
    certificates: Path | None = None  # a folder for certificates about all states
    sharpen: bool = False  # smaller games are played first


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Decisions(Result):
    """Which of several states are safe: `safe` has True, False or None (unknown) per state, in the given order."""

    safe: tuple[bool | None, ...] = field(default=(), repr=False)
    rows: Callable[[], list[Json]] = field(default=list, repr=False)  # each state with its answer

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return SAFE where all states are, UNSAFE where one is not, else UNKNOWN."""
        if False in self.safe:
            return Verdict.UNSAFE
        return Verdict.UNKNOWN if None in self.safe else Verdict.SAFE

    @property
    def states(self) -> tuple[Mapping[str, Any], ...]:
        """The states, in the given order."""
        return tuple(row["state"] for row in self.rows())

    def to_dict(self) -> Json:
        """Return the JSON document that the command line prints with `--json`."""
        document = Result.to_dict(self)
        return {**document, "figures": {"states": self.rows(), **document["figures"]}}

    def _rows(self) -> Iterator[Mapping[str, Any]]:
        for row in self.rows():
            yield {**row["state"], **{name: value for name, value in row.items() if name in ("safe", "strong_cyclic")}}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class GoalReaching(Decisions):
    """From which states some policy keeps the goal in reach whatever happens (a strong-cyclic policy)."""

    @property
    def verdict(self) -> Verdict:  # type: ignore[override]
        """Return STRONG_CYCLIC where all states have such a policy, NOT_STRONG_CYCLIC where one has none, else UNKNOWN."""
        if self.reason is not None:
            return Verdict.UNKNOWN
        return Verdict.STRONG_CYCLIC if all(self.safe) else Verdict.NOT_STRONG_CYCLIC


def decide_states(task: Task, question: Question, work: Work) -> Safe | Unsafe | Unknown | Decisions:
    """Return whether some policy surely avoids `fail` from each state; about one state alone with a certificate."""
    from polvet.safety import prove
    from polvet.safety.confirmed import confirm_answers, knowing

    decided, decisions, lost = decide_unproved(task, question, work)
    won = _won(task, work) if question.sharpen else None
    unsafe: Any = partial(prove, knowing(task), verdict=Verdict.UNSAFE)
    if question.sharpen:
        from polvet.verify.lost_projection import prove_unsafe

        unsafe = partial(prove_unsafe, task, lost)
    if not question.alone and question.certificates is None:
        checked = confirm_answers(
            task, question.states, decided, found=work.spent(), budget=work.budget, won=won, lost=lost, unsafe=unsafe
        )
        return replace(decisions, confirmation=checked)
    provers = (("safe", partial(prove, knowing(task, lost), verdict=Verdict.SAFE)), ("unsafe", unsafe))
    claims = {
        word: (
            [state for state, one in zip(question.states, decided, strict=True) if one.verdict.value == word],
            partial(prover, budget=work.budget),
        )
        for word, prover in provers
    }
    if won is not None:
        states, search = claims["safe"]
        claims["safe"] = [state for state in states if not won.holds(state)], search
        claims["safe by projection"] = (
            [state for state in states if won.holds(state)],
            partial(won.prove, budget=work.budget),
        )
    evidence = _proved(
        task, claims, replace(question, output=question.output if question.alone else None), decisions.word, work
    )
    if not question.alone:
        return replace(decisions, **evidence.fields())
    return ONE[decisions.word](
        figures={"states": decisions.rows(), **decisions.figures},
        certificate=evidence.certificates.get(decisions.word),
        reason=decisions.reason,
        limit=decisions.limit,
        method=question.algorithm,
        source=decisions,
        **evidence.fields(),
        **work.account(),
    )


def _won(task: Task, work: Work) -> WonProjection | None:
    """Return what a smaller game wins, with evidence, where there is such a game."""
    from polvet.verify.won_projection import find_won

    won = find_won(task, budget=work.budget.share(WON_SHARE))
    return None if isinstance(won, str) else won


def decide_unproved(task: Task, question: Question, work: Work) -> tuple[Any, Decisions, Sequence[GameVerdicts]]:
    """Return the answers about the states, as engines give them and as decisions, and what smaller games lost; nothing is proved yet."""
    _refuse(task)
    decided, figures, lost = (_by_search if ALGORITHMS[question.algorithm].search else _by_diagrams)(
        task, question, work
    )
    counts = Counter(answer.verdict.value for answer in decided)
    figures = {
        **{name: counts[name] for name in TRUTH},
        "expanded": sum(answer.expanded for answer in decided),
        **figures,
    }
    reason = why(next((answer.limit for answer in decided if answer.limit is not None), None))
    decisions = Decisions(
        figures=figures,
        source=(task, question.states),
        safe=tuple(TRUTH[answer.verdict.value] for answer in decided),
        rows=partial(_listed, task, question.states, decided),
        **reason,
        **work.account(),
    )
    return decided, decisions, lost


@dataclass(frozen=True, slots=True)
class Evidence:
    """Certificates by verdict, where they were written, and what the checker says of them."""

    certificates: Mapping[str, Mapping[str, Any]]
    written: Any
    confirmation: Any

    def fields(self) -> Json:
        """Return what a result says of them."""
        return {"written": self.written, "confirmation": self.confirmation}


def _proved(task: Task, claims: Mapping[str, Any], question: Question, word: str, work: Work) -> Evidence:
    """Prove and check the claims (the states of a verdict, and who proves it), and write what was asked for."""
    from polvet.confirm.outcome import Confirmation, NotChecked, worst
    from polvet.safety.confirmed import confirm_states

    certificates: dict[str, Mapping[str, Any]] = {}
    paths: dict[str, str] = {}
    checked: Confirmation | None = None
    for name, (states, prover) in claims.items():
        if not states:
            continue
        verdict = name.removesuffix(" by projection")
        place = None if question.certificates is None else question.certificates / FILES[name]
        place = question.output if question.output is not None and verdict == word else place
        try:
            certificates[verdict], outcome = confirm_states(
                task, verdict, states, prover, found=work.spent(), budget=work.budget, output=place
            )
        except LimitReached as limit:
            if question.alone and not question.sharpen:
                raise
            told = "smaller games tell it, and a" if question.sharpen else "a"
            checked = worst(checked, NotChecked(f"{told} proof was not found: {limit}"))
            continue
        checked = worst(checked, outcome)
        if place is not None:
            paths[name if question.output is None else word] = str(write_certificate(certificates[verdict], place))
    return Evidence(certificates, paths.get(word) if question.output is not None else paths or None, checked)


def decide_within(task: Task, states: Sequence[State], bound: str, work: Work) -> Decisions:
    """Return for each state whether some policy fails with probability at most the bound."""
    from polvet.records.state_json import state_to_json
    from polvet.safety import bound as bounded
    from polvet.shield.world import parse_bound

    most = parse_bound(bound, Where("bound"))
    answers = [bounded.decide_within(task, state, most, budget=work.budget) for state in states]
    rows = [
        {
            "state": state_to_json(task, state),
            "safe": TRUTH[one.verdict.value],
            "expanded": one.states,
            "lower": one.lower,
            "upper": one.upper,
            **({"reason": str(one.limit)} if one.limit else {}),
        }
        for state, one in zip(states, answers, strict=True)
    ]
    reason = why(next((one.limit for one in answers if one.limit), None))
    safe = tuple(TRUTH[one.verdict.value] for one in answers)
    return Decisions(
        figures={"bound": str(most)},
        source=(task, states),
        safe=safe,
        rows=lambda: rows,
        seconds=work.spent(),
        **reason,
    )


def decide_goal_reaching(task: Task, question: Question, work: Work) -> GoalReaching:
    """Return for each state whether a strong-cyclic policy exists; about one state alone with a certificate."""
    from polvet.confirm.confirmation import SMALL_STATES, seconds_for
    from polvet.records.state_json import state_to_json
    from polvet.safety.confirmed import confirm_batches
    from polvet.safety.strong_cyclic import prove_lost, prove_won, solve

    states = question.states
    try:
        solved = solve(task, states, budget=work.budget)
    except LimitReached as limit:
        return GoalReaching(figures={"strong_cyclic": None}, seconds=work.spent(), **why(limit))
    won = tuple(solved.is_won(state) for state in states)
    figures: Figures = {
        "strong_cyclic": all(won),
        "won": sum(won),
        "lost": len(won) - sum(won),
        "explored": solved.game.states,
    }
    figures["environment"] = FAIR
    rows = [{"state": state_to_json(task, state), "strong_cyclic": one} for state, one in zip(states, won, strict=True)]
    decisions = GoalReaching(
        figures=figures, source=(solved, states), safe=won, rows=lambda: rows, seconds=work.spent()
    )
    within = work.budget
    written = question.alone or question.output is not None or question.certificates is not None
    if not written:
        within = within.at_most(seconds_for(work.spent(), small=solved.game.states <= SMALL_STATES))
    claims = {
        word: (
            [state for state, one in zip(states, won, strict=True) if one is wanted],
            partial(prove, solved, budget=within),
        )
        for word, wanted, prove in (("strong-cyclic", True, prove_won), ("not-strong-cyclic", False, prove_lost))
    }
    if not written:
        listed = [(word, chosen, prover) for word, (chosen, prover) in claims.items() if chosen]
        return replace(decisions, confirmation=confirm_batches(task, listed, found=work.spent(), budget=within))
    evidence = _proved(task, claims, question, decisions.word, work)
    own = evidence.certificates.get(decisions.word) if question.alone else None
    return replace(decisions, certificate=own, **evidence.fields())


def all_starts(task: Task, work: Work) -> list[State]:
    """Return all start states, or raise LimitReached: a start condition may describe more than can be listed."""
    from polvet.kernel.starts import Starts

    states: list[State] = []
    for state in Starts.of(task, work.budget).states(budget=work.budget):
        states.append(state)
        if len(states) > MOST_STARTS:
            raise LimitReached(f"more than {MOST_STARTS:,} start states; narrow them with --start, or use --states")
    return states


def _refuse(task: Task) -> None:
    if task.avoid.stuck:
        raise InputError("only a policy gets stuck.", Where("avoid"), "Use deadlock.")
    if task.avoid.loop:
        raise InputError("only a policy loops.", Where("avoid"), "Use --goal-reaching.")


def _by_search(task: Task, question: Question, work: Work) -> tuple[list[Any], Figures, Sequence[GameVerdicts]]:
    from polvet.safety.batch import decide_many
    from polvet.safety.decide import ActionOrder, Decider
    from polvet.safety.foresight import sharpen

    threads = 1 if work.is_cluster else work.threads(max(1, len(question.states) // 256))
    preference = None if question.policy is None else question.policy.bound
    decider = Decider(
        task,
        algorithm=question.algorithm,
        order=ActionOrder(question.order, work.chance, preference),
        share=question.share,
        threads=threads,
        radius=question.radius,
    )
    with work.crew(task, None if question.policy is None else question.policy.file) as crew:
        deciding = stopwatch()
        if question.sharpen:
            around = decider.compiled.pack(question.states[:AROUND])
            alone = len(question.states) <= AROUND
            sharpen(decider, around, alone=alone, budget=work.budget.share(SHARPENING_SHARE))
        batch = decide_many(
            decider, question.states, file=None if question.alone else question.output, budget=work.budget, crew=crew
        )
        seconds = deciding()
    figures: Figures = {
        "algorithm": question.algorithm,
        "order": question.order,
        "shared": decider.share,
        "threads": threads,
        "resumed": batch.resumed,
        "decide_seconds": round(seconds, 6),
        "peak_bytes": decider.peak_bytes,
        "known_states": decider.known_states,
        **({"smaller_games": decider.smaller_games} if question.sharpen else {}),
    }
    return batch.decided, figures, decider.lost_games


def _by_diagrams(task: Task, question: Question, work: Work) -> tuple[list[Any], Figures, Sequence[GameVerdicts]]:
    from polvet.safety.propagate_bdd import decide_by_diagrams

    spent = stopwatch()
    decided, nodes = decide_by_diagrams(task, question.states, budget=work.budget)
    figures: Figures = {"algorithm": question.algorithm, "decide_seconds": round(spent(), 6), "diagram_nodes": nodes}
    return decided, figures, ()


def _listed(task: Task, states: Sequence[State], decided: Sequence[Any]) -> list[Json]:
    from polvet.records.state_files import StateFormat

    names = StateFormat(task)
    return [
        {
            "state": names.write(state),
            "safe": TRUTH[one.verdict.value],
            "expanded": one.expanded,
            "passes": one.passes,
            "seconds": round(one.seconds, 9),
            **({"reason": str(one.limit)} if one.limit is not None else {}),
        }
        for state, one in zip(states, decided, strict=True)
    ]
