"""States numbered by a decision diagram: in the kernel while their number fits 128 bits, in big integers beyond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from polvet import _core

WORD = 2**64
SMALL = 2**62  # numbers up to this are handled in numpy
Ranks: TypeAlias = Sequence[int] | NDArray[np.int64]


class BigDiagram:
    """The slow twin of `_core.Diagram`'s numbering, over unbounded integers."""

    def __init__(self, diagram: _core.Diagram, domains: Sequence[tuple[int, int]]) -> None:
        self.root, self.nodes, self.arcs = diagram.structure()
        self.domains = domains
        self.count = [0] * len(self.nodes)
        for node in sorted(range(len(self.nodes)), key=lambda node: -self.nodes[node][0]):
            level, begin, end = self.nodes[node]
            self.count[node] = sum(
                (upper - lower + 1) * self._below(child, level + 1) for lower, upper, child in self.arcs[begin:end]
            )
        self.total = 0 if self.root == -2 else self._below(self.root, 0)

    def _below(self, child: int, level: int) -> int:
        """Return the number of states below a child when the levels from `level` on are still open."""
        end = len(self.domains) if child < 0 else self.nodes[child][0]
        result = 1 if child < 0 else self.count[child]
        for lower, upper in self.domains[level:end]:
            result *= upper - lower + 1
        return result

    def unrank(self, rank: int) -> list[int]:
        """Return the state of that rank, one value per level."""
        values: list[int] = []
        node, here = self.root, self.total
        while True:
            end = len(self.domains) if node < 0 else self.nodes[node][0]
            for lower, upper in self.domains[len(values) : end]:
                here //= upper - lower + 1
                quotient, rank = divmod(rank, here)
                values.append(lower + quotient)
            if node < 0:
                return values
            level, begin, end = self.nodes[node]
            for lower, upper, child in self.arcs[begin:end]:
                here = self._below(child, level + 1)
                weight = (upper - lower + 1) * here
                if rank < weight:
                    break
                rank -= weight
            quotient, rank = divmod(rank, here)
            values.append(lower + quotient)
            node = child


@dataclass(frozen=True, slots=True)
class RankedPart:
    """Values for some variables, numbered from 0 to `total` - 1 in lexicographic order."""

    diagram: _core.Diagram
    big: BigDiagram | None
    total: int

    @classmethod
    def of(cls, diagram: _core.Diagram, domains: Sequence[tuple[int, int]]) -> RankedPart:
        """Return the numbering of a compiled diagram."""
        if diagram.overflowed:
            big = BigDiagram(diagram, domains)
            return cls(diagram, big, big.total)
        high, low = diagram.total
        return cls(diagram, None, high * WORD + low)

    def rows(self, ranks: Ranks) -> NDArray[np.int64]:
        """Return one row of values per rank."""
        if self.big is not None:
            width = len(self.big.domains)
            return np.array([self.big.unrank(rank) for rank in ranks], dtype=np.int64).reshape(len(ranks), width)
        words = np.zeros((len(ranks), 2), dtype=np.uint64)
        if self.total <= SMALL:
            words[:, 1] = np.asarray(ranks, dtype=np.int64).astype(np.uint64)
        else:
            words[:, 0] = np.array([rank // WORD for rank in ranks], dtype=np.uint64)
            words[:, 1] = np.array([rank % WORD for rank in ranks], dtype=np.uint64)
        return self.diagram.unrank(words)
