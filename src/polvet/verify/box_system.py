"""What the engine asks, as plain data: a process on another machine makes the same kernel of it, and finds the same answers.

A search depends on the question and its seed alone (src/_core/boxes/batch.cpp), so it does not matter who makes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pickle import dumps, loads
from typing import Any, Literal

from polvet import __version__, _core
from polvet.errors import InputError, Where
from polvet.policy.trees import TreeEnsemble
from polvet.policy.unit_graph import AnyNetwork
from polvet.workers.protocol import Workers

OPENED = 4
"""How many systems a worker keeps ready: it serves one command after the other."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Who answers questions: so many threads here, and for hard ones workers elsewhere."""

    threads: int = 1
    workers: Workers | None = None


ALONE = Parallelism()


@dataclass(frozen=True, slots=True)
class BoxData:
    """A policy and the steps it may take; cells, rows and boxes are tuples as the kernel reads them."""

    policy: AnyNetwork | TreeEnsemble
    inputs: tuple[int, ...]
    filtered: bool
    bounds: tuple[Any, ...]
    guards: tuple[Any, ...]
    steps: tuple[tuple[int, Any, Any], ...]
    rows: tuple[Any, ...]
    ended: tuple[Any, ...]

    def kernel(self) -> _core.BoxSystem:
        """Return the kernel that answers."""
        made = _core.BoxSystem(self.bounds, self.policy.kernel, list(self.inputs), self.filtered, list(self.guards))
        for output, cell, updates in self.steps:
            made.add_step(output, cell, updates)
        made.set_rows(list(self.rows))
        made.set_ended(list(self.ended))
        return made


@dataclass(frozen=True, slots=True)
class Packed:
    """Box data on its way to workers, which are processes of the same user; the same content is opened once in each."""

    content: bytes = field(compare=False, repr=False)
    sha256: str
    version: str = __version__

    @classmethod
    def of(cls, data: BoxData) -> Packed:
        """Return the data packed."""
        content = dumps(data)
        return cls(content, sha256(content).hexdigest())


@dataclass(frozen=True, slots=True)
class RemoteQuestion:
    """A question for a worker: a method of the kernel with its arguments, which ask one thing."""

    method: Literal["find", "find_step_into"]
    arguments: tuple[Any, ...]


def answer_remotely(packed: Packed, question: RemoteQuestion) -> tuple[Any, ...]:
    """Return the kernel's answer, its enumeration as a number."""
    if packed.version != __version__:
        raise InputError(
            f"this worker has polvet {__version__}, the command has {packed.version}.",
            Where("--workers"),
            "Install the same version on every machine of the cluster.",
        )
    kernel = _opened(packed)
    if question.method == "find":
        ((answer, *rest),) = kernel.find(*question.arguments)
    else:
        ((answer, *rest),) = kernel.find_step_into(*question.arguments)
    return int(answer.value), *rest


@lru_cache(maxsize=OPENED)
def _opened(packed: Packed) -> _core.BoxSystem:
    data = loads(packed.content)
    assert isinstance(data, BoxData)
    return data.kernel()
