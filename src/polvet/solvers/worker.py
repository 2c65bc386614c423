"""A solver in a process of its own, asked by lines of JSON and killed when it does not answer in time.

It is killed outright, because some solvers (Marabou) ignore everything else while they work. A killed worker starts anew at the next
question. Nothing a worker answers is a proof: SAT answers are executed, UNSAT answers are for comparison and pruning only where
the caller says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from polvet.budget import Budget
from polvet.system import Pipe


class SolverDied(Exception):
    """The worker ended by itself; the text is what it said last."""


class SolverTimeout(Exception):
    """The worker was killed because it did not answer in time."""


class Worker:
    """One process running `python -m MODULE`, started at the first question; `setup` is told to every new process."""

    def __init__(self, module: str, setup: Mapping[str, Any] | None = None, *, megabytes: int | None = None) -> None:
        self.module, self.setup, self.megabytes = module, setup, megabytes
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: Pipe | None = None
        self._buffer = b""

    def ask(self, question: Mapping[str, Any], seconds: float | None = None) -> Any:
        """Return the answer, or raise SolverTimeout or SolverDied."""
        budget = Budget(seconds)
        try:
            if self._process is None:
                self._start(budget)
            return self._round(question, budget)
        except BaseException:  # also Ctrl-C and a limit: whoever asks next must not get the answer to this question
            self.close()
            raise

    def close(self) -> None:
        """Kill the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
            self._process, self._answers, self._buffer = None, None, b""

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, budget: Budget) -> None:
        environment = {**os.environ, "POLVET_WORKER_MB": str(self.megabytes or 0), "PYTHONWARNINGS": "ignore"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", self.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdout is not None
        self._answers = Pipe(self._process.stdout)
        if self.setup is not None:
            self._round(self.setup, budget)

    def _round(self, question: Mapping[str, Any], budget: Budget) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise SolverDied(f"{self.module} ended by itself") from None
        answer = json.loads(self._line(budget))
        if isinstance(answer, dict) and "error" in answer:
            raise SolverDied(str(answer["error"]))
        return answer

    def _line(self, budget: Budget) -> bytes:
        assert self._answers is not None
        while b"\n" not in self._buffer:
            if budget.is_over():
                raise SolverTimeout(f"{self.module} did not answer in time")
            piece = self._answers.read(budget.left_or_none())
            if piece is None:
                continue
            if not piece:
                raise SolverDied(f"{self.module} ended by itself")
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\n", 1)
        return line
