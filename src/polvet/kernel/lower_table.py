"""From the rows of a table to code of the kernel, without the expressions that the rows stand for.

One jump on the number of the state leads to its rows. A branch writes whole words of constants; equal branches share their code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from polvet.budget import Budget
from polvet.kernel.assemble import Assembler
from polvet.kernel.layout import Field
from polvet.model.network import Joint
from polvet.model.tables import REWARD, STATE, Outcome, TableMoves

LEAST_CHANCE = math.ulp(0.0)
Branch = tuple[float, int, int, int]
"""A probability, where its code begins, and the stretch of careful code (none)."""


class RowWriter:
    """Emits the rows of one table; `masks` numbers the words of bits that the code names."""

    def __init__(self, moves: TableMoves, out: Assembler, fields: Mapping[str, Field], masks: dict[int, int]) -> None:
        self.moves, self.out, self.masks = moves, out, masks
        self.fields = fields
        self._entries: dict[tuple[tuple[tuple[int, int, int], ...], float | None], int] = {}

    def branches(self, budget: Budget, *, is_rewarded: bool) -> tuple[list[tuple[int, int, int]], list[Branch]]:
        """Emit what the branches write; return each row's stretch of branches, and these."""
        table, edges, branches = self.moves.table, [], list[Branch]()
        for source, _, outcomes in budget.each(table.moves):
            begin = len(branches)
            for outcome in outcomes:
                # SOUND: a branch that is possible stays so where its probability is too small for a double.
                chance = max(float(outcome.probability), LEAST_CHANCE)
                branches.append((chance, self._code(source, outcome, is_rewarded=is_rewarded), 0, 0))
            edges.append((begin, len(branches), -1))
        return edges, branches

    def menu(self, joints: list[Joint], jumps: list[tuple[int, list[int], int]]) -> int:
        """Emit the choice among the rows of a state, none where the run has ended; return where it begins."""
        out, table = self.out, self.moves.table
        joint_of = {joint.label: number for number, joint in enumerate(joints)}
        entry = out.here
        for event in table.events:
            out.read.add(out.slots[event])
        over = [out.emit("JNZ", out.slots[event]) for event in table.events]
        out.read.add(out.slots[STATE])
        switch = len(jumps)
        out.emit("SWITCH", out.slots[STATE], switch)
        out.land(over)
        nothing = out.emit("HALT")
        starts: dict[int, int] = {}
        for state, rows in self.moves.by_state.items():
            starts[state] = out.here
            for row in rows:
                out.emit("EMIT", joint_of[table.labels[table.moves[row][1]]], row)
            out.emit("HALT")
        jumps.append((0, [starts.get(state, nothing) for state in range(table.states)], nothing))
        return entry

    def _code(self, source: int, outcome: Outcome, *, is_rewarded: bool) -> int:
        words: dict[int, tuple[int, int]] = {}  # word -> (mask, bits)
        for name, value in self.moves.table.changes(source, outcome):
            field = self.fields[name]
            mask, bits = words.get(field.word, (0, 0))
            words[field.word] = mask | field.mask << field.shift, bits | (int(value) - field.lower) << field.shift
        reward = float(outcome.reward) if is_rewarded and outcome.reward else None
        key = tuple((word, mask, bits) for word, (mask, bits) in words.items()), reward
        if key not in self._entries:
            self._entries[key] = self.out.here
            if reward is not None:
                self.out.emit("STR", self.out.slots[REWARD], self.out.constant(reward))
            for word, (mask, bits) in words.items():
                self.out.emit("SETW", word, self._mask(mask), self._mask(bits))
            self.out.emit("HALT")
        return self._entries[key]

    def _mask(self, bits: int) -> int:
        return self.masks.setdefault(bits, len(self.masks))
