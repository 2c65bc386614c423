"""The independent checker, as people ask it; it judges alone. Only where a certificate lacks its split tree is one looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polvet.budget import Budget, stopwatch
from polvet.check.checker import Accepted as Proved
from polvet.check.checker import Subjects, check
from polvet.check.claim import claim_of
from polvet.check.proves import kinds_expected
from polvet.choices import listed
from polvet.errors import InputError, LimitReached, Where
from polvet.files import read_json
from polvet.front.result import why
from polvet.front.results import Accepted, Rejected, Unknown
from polvet.model.task import NO_OPTIONS, TaskOptions
from polvet.records.certificate_files import lacks_tree

if TYPE_CHECKING:
    from polvet.front.policy import Policy
    from polvet.front.task import Task


def certify(
    certificate: Any,
    task: Task | str | os.PathLike[str] | None = None,
    policy: Any = None,
    *,
    expect: str | Iterable[str] | None = None,
    allow_options: bool = False,
    allow_code: bool = False,
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> Accepted | Rejected | Unknown:
    """Return what the independent checker says of a certificate: a file's path, a dictionary, or a result that has one.

    It must be about the task's own conditions (or those that the task was loaded with); `allow_options` accepts any, `allow_code` runs
    Python functions that the task's file names. The policy is a path, or whatever `Task.policy` takes. A Python function is asked
    again, about every state: what is accepted is about the function that is given here, whichever one the certificate was made with.
    `expect` names what it must prove, a verdict ('safe', 'unsafe', ...) or a kind, or several: one that proves something else is rejected.
    """
    from polvet.confirm.confirmation import GIVEN_FUNCTION

    options = NO_OPTIONS if task is None or isinstance(task, str | os.PathLike) else _task(task).model_task.options
    one = None if policy is None or isinstance(policy, str | os.PathLike) else _policy(policy, task, allow_code)
    file = one.file if one is not None else None if policy is None else Path(policy)
    function = None if one is None else one.function
    conditions = None if allow_options else options
    subjects = Subjects(
        _source_of(task),
        file if function is None else GIVEN_FUNCTION,
        conditions,
        Budget(time_limit, memory_limit),
        options.domain,
        function,
        allow_code or options.allow_code,
    )
    return judge(certificate, subjects, [expect] if isinstance(expect, str) else expect)


def judge(certificate: Any, subjects: Subjects, expect: Iterable[str] | None = None) -> Accepted | Rejected | Unknown:
    """Return what the checker says of the certificate about these files; it must prove one of the words that are expected."""
    from polvet.sources import options_from_json
    from polvet.worlds.formats import look_again

    spent, where, named = stopwatch(), Where("certificate"), None
    look_again()
    document = getattr(certificate, "certificate", certificate)
    if isinstance(document, str | os.PathLike):
        named = str(document)
        document, where = read_json(Path(document)), Where(named)
    if document is None:
        raise InputError("the result has no certificate.", where, "Certify a result that has one.")
    words = None if expect is None else list(expect)
    wanted = None if words is None else kinds_expected(words, of_policy=subjects.policy is not None)
    try:
        if isinstance(document, Mapping) and lacks_tree(document):
            from polvet.verify.split_tree import completed  # what it finds is checked like any other

            document = completed(dict(document), subjects)
        verdict = check(document, subjects, where)
    except LimitReached as limit:
        return Unknown(written=named, **why(limit), seconds=spent())
    if isinstance(verdict, Proved) and words is not None and wanted is not None and document["kind"] not in wanted:
        what = f"expected is {listed(words)}; it proves something else: {verdict.claim} (kind '{document['kind']}')"
        return Rejected(certificate=document, reason=what, written=named, seconds=spent())
    if isinstance(verdict, Proved):
        about = claim_of(document, subjects)
        if subjects.task is not None and "fail" in about:
            from polvet.check.never import load_aloud

            load_aloud(subjects.task, subjects.read_with(options_from_json(document.get("options", {}), where)))
        return Accepted(certificate=document, claim=verdict.claim, about=about, written=named, seconds=spent())
    return Rejected(certificate=document, reason=verdict.reason, written=named, seconds=spent())


def subjects_of(
    task: Path | None, policy: Path | None, options: TaskOptions, *, allow_options: bool, budget: Budget
) -> Subjects:
    """Return what the certificate must speak about, as the command line gives it."""
    if allow_options and options != NO_OPTIONS:
        raise InputError(
            "conditions are asked for, and any are allowed.", Where("allow_options"), "Give one or the other."
        )
    expected = None if allow_options else options
    return Subjects(task, policy, expected, budget, options.domain, allow_code=options.allow_code)


def _source_of(task: Any) -> Path | None:
    if task is None or isinstance(task, str | os.PathLike):
        return None if task is None else Path(task)
    source = task.model_task.source
    return None if source is None else Path(source.file)


def _task(task: Any) -> Task:
    from polvet.front.task import Task

    if not isinstance(task, Task):
        raise InputError(
            f"a {type(task).__name__} is no task.", Where("task"), "Give its path, or what polvet.load returned."
        )
    return task


def _policy(policy: Any, task: Any, allow_code: bool) -> Policy:
    """Return the policy; an object needs the task, which says what its inputs and outputs are."""
    from polvet.front.loading import load
    from polvet.front.policy import Policy

    if isinstance(policy, Policy):
        return policy
    if task is None:
        raise InputError("a policy in memory needs its task.", Where("policy"), "Give the task, too.")
    return load(task, allow_code=allow_code).policy(policy)
