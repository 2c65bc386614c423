"""General policies: whether the rules of a sketch reach the goal in every problem given, and end from every valuation.

The rules are followed in each problem until something is wrong: the verdict is then *refuted*, with the run that shows it. If nothing
is, the rules themselves are proved to end, from all values of their features: *holds*, which speaks of the problems that were
given and of no others. Without that proof the answer is *unknown*.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from polvet.confirm.outcome import NO_KIND, NotChecked
from polvet.errors import InputError, LimitReached, Where, suggest
from polvet.files import Figures, Json
from polvet.front.arguments import path
from polvet.front.limits import Chance, Work
from polvet.front.plans import Undecided
from polvet.front.result import Result, Run, why, write_certificate_to
from polvet.verdict import Verdict

if TYPE_CHECKING:
    from polvet.general.follow import Followed
    from polvet.policy.finite_memory.sketch import Sketch
    from polvet.policy.finite_memory.valuations import Function

MAX_STATES = 1_000_000
"""Of one problem, where no other limit is given."""
MODELLED = ("rule", "action")
MOST_PLACES = 100_000
"""That a certificate lists; of more states the ranking alone is written and checked."""
RANKING_ALONE = "the ranking was checked, so the rules end from every valuation; what they do in the problems was not"
BY_EXECUTION = "; features that are Python functions count by the answers they gave"


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Generalizing(Result):
    """In each of the problems every run of the rules ends in the goal, and the rules end from every valuation of their features.

    `problems` tells of each its `states` and `longest_run`; the certificate is a ranking of the rules, and of their places in the problems.
    """

    problems: tuple[Mapping[str, Any], ...] = ()
    verdict: ClassVar[Verdict] = Verdict.HOLDS

    def _more(self) -> Mapping[str, Any]:
        return {"problems": [dict(one) for one in self.problems]}


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class Refuted(Result):
    """In `problem` something is wrong, and `run` shows it from the initial state: its `end` is `failure`.

    `claim`: its last action does not do what a rule says; `stuck`: no rule has an action in its last state, outside the goal;
    `cycle`: its last state is the one numbered `back_to`. `valuations` are the features in its states.
    """

    problem: str = ""
    failure: str = ""
    run: Run = field(repr=False)
    valuations: tuple[Mapping[str, int], ...] = field(default=(), repr=False)
    back_to: int | None = None
    problems: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)  # in which nothing was wrong before
    verdict: ClassVar[Verdict] = Verdict.REFUTED

    def _pictures(self) -> str:
        return self.run._repr_html_()

    def _more(self) -> Mapping[str, Any]:
        counterexample = {
            "problem": self.problem,
            "failure": self.failure,
            "states": [list(state) for state in self.run.states],
            "actions": list(self.run.actions),
            "valuations": [dict(one) for one in self.valuations],
            "back_to": self.back_to,
        }
        return {"problems": [dict(one) for one in self.problems], "counterexample": counterexample}


def generalizes(
    policy: str | os.PathLike[str],
    *problems: str | os.PathLike[str],
    domain: str | os.PathLike[str] | None = None,
    features: str | os.PathLike[str] | Mapping[str, Function] | None = None,
    output: str | os.PathLike[str] | None = None,
    **limits: Any,
) -> Generalizing | Refuted | Undecided:
    """Return whether the rules of a sketch (`policy`) reach the goal in every one of the PDDL problems, and are proved to end.

    `domain` is by default `domain.pddl` beside the first problem. What a feature means stands in the sketch, or is a function of its
    name among `features`: a Python file, which is executed, or functions by name. `output` names a file for the certificate.
    """
    from polvet.features.instances import read_instance
    from polvet.general.follow import follow
    from polvet.policy.finite_memory.valuations import meanings_of

    work = Work.begin(limits, Chance, max_states=MAX_STATES)
    if not problems:
        raise InputError("there are no problems.", Where("problems"), "Give the PDDL files of one or more.")
    for number, problem in enumerate(problems):
        path(problem, f"problems[{number}]")
    sketch = _sketch(path(policy, "policy"))
    functions = _functions(sketch, features)
    meanings = meanings_of(sketch, functions)
    known, domain_text = _domain(Path(problems[0]), domain)
    file, target = Path(policy), None if output is None else Path(output)
    checkable = _Checkable(file, domain_text, bool(functions), target)
    texts = [(str(problem), _text(problem)) for problem in problems]
    rows: list[Mapping[str, Any]] = []
    more = {"problems": rows}
    try:
        for name, text in texts:
            work.tell(f"following the rules in {name}")
            followed = follow(sketch, meanings, read_instance(text, Where(name), known), budget=work.budget)
            if followed.failure is not None:
                return _refuted(sketch, name, followed, rows, work, checkable)
            checkable.add(name, text, followed)
            rows.append({"problem": name, "states": len(followed.ranks), "longest_run": followed.longest_run})
    except LimitReached as limit:
        return Undecided(**why(limit), figures=_figures(rows), more=more, **work.account())
    return _proved(sketch, rows, work, checkable)


@dataclass(slots=True)
class _Checkable:
    """What a certificate needs: the sketch's file, the domain, and each problem with its places, as long as they are not too many."""

    sketch: Path
    domain: str
    by_execution: bool  # features are Python functions: nothing can be checked
    output: Path | None
    problems: list[Json] = field(default_factory=list)
    places: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether all places of all problems are remembered."""
        return not self.by_execution and self.places <= MOST_PLACES

    def add(self, name: str, text: str, followed: Followed) -> None:
        """Remember the places of a problem and their ranks."""
        self.places += len(followed.ranks)
        if self.is_whole:
            listed = [[memory, f"{state:x}", rank] for (memory, state), rank in followed.ranks.items()]
            self.problems.append({"name": name, "text": text, "places": listed})

    def confirmed(
        self, verdict: str, proof: Mapping[str, Any], work: Work
    ) -> tuple[Mapping[str, Any] | None, Any, str | None]:
        """Return the certificate, what the checker said of it, and where it was written."""
        from polvet.termination.certificates import confirmed

        certificate, checked = confirmed(
            verdict, proof, self.sketch, None, found=work.spent(), budget=work.budget, output=self.output
        )
        return certificate, checked, write_certificate_to(self.output, certificate)


def _refuted(
    sketch: Sketch, name: str, followed: Followed, rows: list[Mapping[str, Any]], work: Work, checkable: _Checkable
) -> Refuted:
    from polvet.features.instances import shown

    failure, instance = followed.failure, followed.instance
    assert failure is not None
    memory = len(sketch.memory) > 1
    states = tuple(
        {shown(atom): True for atom in instance.true_atoms(state)} | ({f"memory {place}": True} if memory else {})
        for place, state in failure.places
    )
    valuations = tuple(
        dict(zip(sketch.features.names, followed.values[state], strict=True)) for _, state in failure.places
    )
    certificate: Mapping[str, Any] | None = None
    checked: Any = NotChecked(NO_KIND.reason + BY_EXECUTION)
    written = None
    if not checkable.by_execution:
        proof = {
            "kind": "general-refuted",
            "domain": checkable.domain,
            "problem": {"name": name, "text": instance.text},
            "failure": failure.kind,
            "places": [[memory, f"{state:x}"] for memory, state in failure.places],
            "actions": list(failure.actions),
            "back_to": failure.back_to,
        }
        certificate, checked, written = checkable.confirmed("refuted", proof, work)
    return Refuted(
        problem=name,
        failure=failure.kind,
        reason=f"{name}: {failure.why}",
        run=Run(states, failure.actions, failure.kind),
        valuations=valuations,
        back_to=failure.back_to,
        problems=tuple(rows),
        figures=_figures(rows),
        source=followed,
        certificate=certificate,
        written=written,
        confirmation=checked,
        **work.account(),
    )


def _proved(
    sketch: Sketch, rows: list[Mapping[str, Any]], work: Work, checkable: _Checkable
) -> Generalizing | Undecided:
    """Return that it holds if the rules are proved to end, with the ranking and the places, which the checker has accepted."""
    from polvet.termination.sketches import sketch_terminates
    from polvet.termination.verdicts import Terminating

    reached = f"in all {len(rows)} problems every run reaches the goal, but"
    more = {"problems": rows}
    work.tell("proving that the rules end")
    termination, _ = sketch_terminates(sketch, work.budget)
    if not isinstance(termination, Terminating):
        reason = (
            getattr(termination, "reason", None) or "from some valuation of the features they can be followed for ever"
        )
        return Undecided(
            reason=f"{reached} the rules are not proved to end: {reason}",
            limit=getattr(termination, "limit", None),
            figures=_figures(rows),
            more=more,
            method=termination.method,
            **work.account(),
        )
    assert termination.certificate is not None
    if checkable.is_whole:
        bundle = {
            **termination.certificate,
            "kind": "general",
            "domain": checkable.domain,
            "problems": checkable.problems,
        }
        certificate, checked, written = checkable.confirmed("holds", bundle, work)
    else:
        certificate, checked, written = checkable.confirmed("terminating", termination.certificate, work)
        reason = str(checked) if isinstance(checked, NotChecked) else RANKING_ALONE
        checked = NotChecked(reason + BY_EXECUTION if checkable.by_execution else reason)
    return Generalizing(
        problems=tuple(rows),
        figures=_figures(rows),
        certificate=certificate,
        written=written,
        source=termination,
        confirmation=checked,
        **work.account(),
    )


def _figures(rows: list[Mapping[str, Any]]) -> Figures:
    return {
        "problems": len(rows),
        "states": sum(one["states"] for one in rows),
        "longest_run": max((one["longest_run"] for one in rows), default=0),
    }


def _sketch(file: Path) -> Sketch:
    """Return the sketch of the file; rules that mean more than one step of the world are refused."""
    from polvet.files import read_text
    from polvet.policy.finite_memory.sketch import is_sketch, read_sketch

    text, where = read_text(file), Where(str(file))
    if not is_sketch(text):
        raise InputError(
            "is no sketch.", where, 'Write rules "CONDITION -> EFFECTS", or (:policy ...); see docs/termination.md.'
        )
    sketch = read_sketch(text, where)
    for rule in sketch.rules:
        if rule.kind not in MODELLED:
            raise InputError(
                f"'{rule.label}' is a rule of the kind '{rule.kind}', which is not followed in problems.",
                where,
                "Rules there are one step of the world each: no registers, calls or searches. `polvet terminates` reads it.",
            )
    return sketch


def _functions(sketch: Sketch, features: str | os.PathLike[str] | Mapping[str, Function] | None) -> dict[str, Function]:
    """Return the functions that are features of the sketch; one that fits none is refused where it is given by name."""
    if features is None:
        return {}
    names = sketch.features.names
    if isinstance(features, Mapping):
        for name in features:
            if name not in names:
                raise InputError(f"the sketch has no feature '{name}'.", Where("features"), suggest(name, names))
        return dict(features)
    from polvet.policy.functions import load_functions

    file = Path(features)
    functions = {name: _answering(file, name, one) for name, one in load_functions(file).items() if name in names}
    if not functions:
        raise InputError(
            "has no function with the name of a feature.", Where(str(file)), f"Define one of: {', '.join(names)}."
        )
    return functions


def _answering(file: Path, name: str, function: Callable[..., Any]) -> Function:
    def ask(state: Any) -> Any:
        try:
            return function(state)
        except Exception as error:  # whatever the user's function raises is a matter of its file
            raise InputError(
                f"'{name}' raises {type(error).__name__} ({error}).", Where(str(file)), "Make it answer in every state."
            ) from error

    return ask


def _domain(problem: Path, domain: str | os.PathLike[str] | None) -> tuple[Any, str]:
    """Return the domain, and its text."""
    from polvet.pddl import domain_beside
    from polvet.pddl.parse import parse_domain

    file = domain_beside(problem) if domain is None else Path(domain)
    text = _text(file)
    return parse_domain(text, Where(str(file))), text


def _text(file: str | os.PathLike[str]) -> str:
    from polvet.files import read_text

    return read_text(Path(file))
