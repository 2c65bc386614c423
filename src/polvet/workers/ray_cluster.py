"""Workers on a Ray cluster: chunks become Ray tasks, at most a few per core under way, results taken in the order of chunks.

Ray does a task again when its worker process or machine dies; `RETRIES` such deaths of one chunk end the command with an error,
because then the chunk itself kills (it may not fit into the worker's memory).
"""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from itertools import islice
from typing import Any, TypeVar

from polvet.budget import UNLIMITED, Budget
from polvet.errors import InputError, LimitReached, MissingExtra, PolvetError, Where
from polvet.interrupts import noting

Shared = TypeVar("Shared")
Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

RETRIES = 5
PER_CORE = 4  # chunks under way for each core: enough that nobody waits for this process
PATIENCE = 0.5  # seconds between looks at Ctrl-C while a chunk is waited for
KNOCK = 10.0  # seconds to wait for a cluster's door


class RayCluster:
    """A connection to a Ray cluster; made by `open_cluster`."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self.is_left = False
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(_do)

    @property
    def cores(self) -> int:
        """Return how many chunks the cluster does at once."""
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def map(
        self,
        function: Callable[[Shared, Chunk], Result],
        shared: Shared,
        chunks: Iterable[Chunk],
        *,
        budget: Budget = UNLIMITED,
    ) -> Iterator[Result]:
        """Yield function(shared, chunk) for each chunk, in order; raise LimitReached when the budget is used up."""
        stored = self._ray.put(shared)  # once: every machine fetches it once
        waiting = iter(chunks)
        under_way: deque[Any] = deque()
        try:
            while True:
                wanted = PER_CORE * self.cores - len(under_way)  # the cluster may have grown
                under_way.extend(
                    self._task.remote(function, stored, chunk) for chunk in islice(waiting, max(0, wanted))
                )
                if not under_way:
                    return
                done, _ = self._ray.wait([under_way[0]], timeout=PATIENCE)
                if done:
                    yield self._result(under_way.popleft())
                else:
                    budget.check()
        finally:
            # What raises in the middle of a chunk may keep this alive until after the cluster was left, which has cancelled the
            # tasks; Ray, called then, would start a new cluster while the interpreter ends.
            for task in () if self.is_left else under_way:
                self._ray.cancel(task, force=False)

    def _result(self, task: Any) -> Any:
        from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

        try:
            result, complaint = self._ray.get(task)
        except (WorkerCrashedError, OutOfMemoryError, NodeDiedError) as error:
            raise LimitReached(
                f"a chunk of work ended {RETRIES + 1} workers ({type(error).__name__}): their machines may have too little memory"
            ) from None
        if complaint is not None:
            raise complaint
        return result


def _do(function: Callable[[Any, Any], Any], shared: Any, chunk: Any) -> tuple[Any, PolvetError | None]:
    """Run on a worker: return the result, or what polvet complains about (an exception would arrive with Ray's own words)."""
    try:
        return function(shared, chunk), None
    except PolvetError as error:
        return None, error


@contextmanager
def open_cluster(address: str) -> Iterator[RayCluster]:
    """Connect to the cluster: `auto` is the one that runs on this machine, else one is started here for as long as needed."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray warns otherwise
    try:
        import ray
    except ImportError:
        raise MissingExtra("ray", "ray") from None

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address == "auto":
            try:
                ray.init(address="auto", **quiet)
            except ConnectionError:
                ray.init(address="local", include_dashboard=False, **quiet)
        else:
            _knock(address)
            ray.init(address=address, **quiet)
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error).splitlines() or ["no answer"])[0]
        raise InputError(
            f"no Ray cluster answers at '{address}' ({first}).",
            Where("--workers"),
            "Start one with 'ray start --head', or use ray:auto.",
        ) from None
    with redirect_stdout(
        sys.stderr
    ):  # where Ray tells of dead workers, until it is shut down; stdout is for the answer
        cluster = RayCluster(ray)
        try:
            yield cluster
        finally:
            cluster.is_left = True
            # Not cut in the middle: one of 88 commands under load ended with exit code 1 here, which was not seen again.
            with noting() as interrupts, interrupts.held():
                ray.shutdown()


def _knock(address: str) -> None:
    """Raise OSError or ValueError unless somebody listens there: Ray itself would wait for minutes."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("that is not HOST:PORT")
    socket.create_connection((host, int(port)), timeout=KNOCK).close()
