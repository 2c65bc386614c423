"""A real Ray cluster on this machine: two nodes with two worker processes each, kept by a process of its own.

Run as a program it prints the cluster's address and holds it until its input ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

NODES, CORES = 2, 2


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it listens, and the process that keeps it."""

    address: str
    keeper: int

    def busy_workers(self) -> list[int]:
        """The worker processes that are doing a chunk just now."""
        return [pid for pid in descendants(self.keeper) if command_of(pid).startswith("ray::_do")]

    def kill_workers(self, running: subprocess.Popen[str], count: int) -> int:
        """Kill so many workers in the middle of a chunk while the command runs, and return how many it were."""
        killed = 0
        while killed < count and running.poll() is None:
            for pid in self.busy_workers()[:1]:
                os.kill(pid, signal.SIGKILL)
                killed += 1
            time.sleep(0.2)
        return killed


@contextmanager
def start_cluster() -> Iterator[Cluster]:
    keeper = subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert keeper.stdout is not None
        address = keeper.stdout.readline().strip()
        assert address, "the cluster did not start"
        yield Cluster(address, keeper.pid)
    finally:
        keeper.communicate(timeout=60)  # its input ends here


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(root: int) -> list[int]:
    """All processes that come from this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, waiting = [], [root]
    while waiting:
        above = waiting.pop()
        children = [pid for pid, parent in parents.items() if parent == above]
        found += children
        waiting += children
    return found


def hold() -> None:
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so; its workers step back otherwise)
    from ray.cluster_utils import Cluster as RayNodes

    nodes = RayNodes()
    for _ in range(NODES):
        nodes.add_node(num_cpus=CORES, include_dashboard=False)
    sys.stdout.write(nodes.address + "\n")
    sys.stdout.flush()
    sys.stdin.read()
    nodes.shutdown()


if __name__ == "__main__":
    hold()
