"""The cells of a benchmark one after the other in this process, or side by side on a Ray cluster (`--workers ray:ADDRESS`).

Results come in the order of the cells. Seconds measured on a cluster are those of its machines, each busy with other cells:
compare ratios within a cell, not cells with each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from polvet.workers.protocol import Here

Shared = TypeVar("Shared")
Cell = TypeVar("Cell")
Row = TypeVar("Row")


def add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", default="1", help="1, or a Ray cluster: ray:auto, ray:ADDRESS")


def run_grid(
    function: Callable[[Shared, Cell], Row], shared: Shared, cells: Iterable[Cell], workers: str
) -> Iterator[Row]:
    """Yield the row of each cell."""
    if not workers.startswith("ray:"):
        yield from Here().map(function, shared, cells)
        return
    from polvet.workers.ray_cluster import open_cluster

    with open_cluster(workers.removeprefix("ray:")) as cluster:
        yield from cluster.map(function, shared, cells)
