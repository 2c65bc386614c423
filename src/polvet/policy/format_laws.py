"""What every policy format must obey, tried on one of its files: the law for formats of one's own.

A format knows its own files and no others, whatever they are called; reads them alike each time and takes the caller's names; answers
damaged ones with an InputError; and what it says it writes, it reads again as the same policy.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from polvet.choices import BrokenLaw
from polvet.errors import InputError
from polvet.files import beside
from polvet.model.task import Task
from polvet.policy.format import Content, Names, PolicyFormat
from polvet.policy.formats import FORMATS
from polvet.policy.laws import check_policy
from polvet.policy.networks import network_of
from polvet.policy.protocol import Policy, Rows, checked_rows
from polvet.policy.tables import Table
from polvet.policy.trees import TreeEnsemble, make_tree

FOREIGN = (
    b"",
    b"\x08\x08\x12\x06polvet",
    b"{L\x00",
    b'{"learner": {}}',
    b"tree\nversion=v4\n",
    b"// Neural\n1,1,1,1,\n",
    b"1,1,1,1,\n",
    b'{"file": "n.nnet", "input": [], "output": []}',
    b'{"layers": []}',
    b'{"format": "table/1"}',
    b'{"format": "rules/1"}',
    b"\x93NUMPY\x01\x00",
    b"PK\x05\x06" + bytes(18),
    b"\x80\x05K\x01.",
    b"{",
    b"[1, 2]",
    b"\xff\xfe\x00",
    b"\n\n",
)
"""Beginnings of files that are no format's but polvet's own, or nobody's."""
DAMAGES = 60


def check_policy_format(
    candidate: PolicyFormat,
    path: str | Path,
    task: Task | None = None,
    *,
    rows: npt.ArrayLike | None = None,
    library: Callable[[Rows], npt.ArrayLike] | None = None,
    seed: int = 0,
) -> tuple[BrokenLaw, ...]:
    """Return the laws that the format breaks on this file of its own; empty means that none was seen broken.

    The policy in the file must obey the laws of policies (`check_policy`), on states of the task, on `rows` of your own, or against
    the library it came from.
    """
    content = Content.of(path)
    broken = [*_telling_laws(candidate, content), *_damage_laws(candidate, content, np.random.default_rng(seed))]
    try:
        policy = candidate.read(content, Names())
    except InputError as error:
        return (*broken, BrokenLaw(f"it does not read its own file: {error}"))
    broken += check_policy(policy, task, rows=rows, library=library, seed=seed)
    sample = np.random.default_rng(seed).integers(0, 8, size=(40, len(policy.inputs)))
    examples = checked_rows(policy, sample if rows is None else rows)
    broken += _reading_laws(candidate, content, policy, examples)
    broken += _writing_laws(candidate, Path(path), policy, examples)
    return tuple(broken)


def _telling_laws(candidate: PolicyFormat, content: Content) -> Iterator[BrokenLaw]:
    if not all((candidate.name, candidate.help, candidate.told_by, candidate.columns)) or "\n" in candidate.help:
        yield BrokenLaw("it does not say in a line each what it is, what tells it, and whose names it has")
    if _outcome(candidate, content) is not True or _outcome(candidate, Content("any name", content.data)) is not True:
        yield BrokenLaw("it does not know its own file by the content")
    for own in FORMATS.values():
        if own is not candidate and own.detects(content):
            yield BrokenLaw(f"its file is one of polvet's format '{own.name}', which is asked first")
    for data in FOREIGN:
        answer = _outcome(candidate, Content("foreign", data))
        if answer is not False:
            claim = "takes it for its own" if answer is True else f"answers {answer}"
            yield BrokenLaw(f"asked about the foreign content {data[:24]!r} it {claim}")


def _outcome(candidate: PolicyFormat, content: Content) -> Any:
    """Return what it says of the content; an InputError (damaged JSON, a damaged archive) means no."""
    try:
        return candidate.detects(content)
    except InputError:
        return False
    except Exception as error:  # whatever another's code raises is what is looked for
        return f"{type(error).__name__}: {error}"


def _damage_laws(candidate: PolicyFormat, content: Content, rng: np.random.Generator) -> Iterator[BrokenLaw]:
    data = content.data
    for _ in range(DAMAGES if data else 0):
        damaged, place = bytearray(data), int(rng.integers(len(data)))
        if rng.random() < 0.5:
            damaged[place] = int(rng.integers(256))
        else:
            del damaged[place:]
        copy = Content(content.path, bytes(damaged))
        answer = _outcome(candidate, copy)
        try:
            if answer is True:
                candidate.read(copy, Names())
        except InputError:
            continue
        except Exception as error:  # whatever another's code raises is what is looked for
            answer = f"{type(error).__name__}: {error}"
        if answer not in (True, False):
            yield BrokenLaw(f"a file damaged at byte {place} ends in {answer}")
            return


def _reading_laws(candidate: PolicyFormat, content: Content, policy: Policy, rows: Rows) -> Iterator[BrokenLaw]:
    scores = policy.scores(rows)
    if not np.array_equal(candidate.read(Content(content.path, content.data), Names()).scores(rows), scores):
        yield BrokenLaw("the same file gives other scores the second time")
    inputs, outputs = (tuple(f"{name}'" for name in names) for names in (policy.inputs, policy.outputs))
    try:
        renaming = candidate.read(content, Names(inputs, outputs))
    except InputError:
        renaming = None  # a format may name its columns itself, and says so
    if renaming is not None and (renaming.inputs, renaming.outputs) != (inputs, outputs):
        yield BrokenLaw("it ignores the names that the caller gives")
    for name in candidate.beside(content):
        try:
            is_there = beside(content.path, name, content.where).is_file()
        except InputError as error:
            yield BrokenLaw(str(error))
        else:
            if not is_there:
                yield BrokenLaw(f"it names the file '{name}', which is not there")


def _writing_laws(candidate: PolicyFormat, path: Path, policy: Policy, rows: Rows) -> Iterator[BrokenLaw]:
    for ending, foreign in _policies_of_others():
        if candidate.writes(foreign, f"policy{ending}"):
            yield BrokenLaw(f"it would write a {type(foreign).__name__} of nobody's to policy{ending}")
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"policy{path.suffix}"
        if not candidate.writes(policy, str(target)):
            return
        try:
            candidate.write(policy, str(target))
        except InputError as error:
            yield BrokenLaw(f"it does not write what it says it writes: {error}")
            return
        copy = Content.of(target)
        if _outcome(candidate, copy) is not True:
            yield BrokenLaw("it does not know what it has written")
            return
        again = candidate.read(copy, Names())
        if (again.inputs, again.outputs) != (policy.inputs, policy.outputs):
            yield BrokenLaw("what it writes has other names when it is read again")
        elif not np.array_equal(again.scores(rows), policy.scores(rows)):
            yield BrokenLaw("what it writes has other scores when it is read again")


def _policies_of_others() -> Iterator[tuple[str, Policy]]:
    network = network_of([([[1.0], [-1.0]], [0.0, 0.0])], ["x"], ["a", "b"])
    stump = make_tree(0, [0, -1, -1], [0.5, 0, 0], [1, -1, -1], [2, -1, -1], [0, 1, -1])
    trees = TreeEnsemble(("x",), ("a", "b"), (stump,), (0.0, 0.0))
    yield from ((ending, network) for ending in (".onnx", ".zip", ".skops", ".nnet", ".json", ".txt"))
    yield from ((ending, trees) for ending in (".json", ".ubj", ".txt", ".skops"))
    yield from ((ending, Table(("x",), ("a", "b"), {(0.0,): (1.0, 0.0)})) for ending in (".json", ".npy", ".npz"))
