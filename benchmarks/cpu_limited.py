"""One question per process, on one thread; the system kills what takes more CPU seconds than the limit, without asking.

The process imports `module:function`, calls it with the question (reading, imports and whatever a verification makes once are
done there), and measures what that returns. Short answers are given again until there is something to measure.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHORT = 0.2
Say = Callable[[dict[str, Any]], None]


def answer(prepare: str, question: dict[str, Any], limit: float) -> dict[str, Any]:
    """Return the answer and its CPU seconds; a process that is killed has no answer but "limit"."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.cpu_limited", prepare, str(limit)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        text, _ = process.communicate(json.dumps(question), timeout=20 * limit + 60)
    except subprocess.TimeoutExpired:
        process.kill()
        text, _ = process.communicate()
    lines = [line for line in text.splitlines() if line.startswith("{")]
    if not lines:
        return {"answer": "limit" if process.returncode < 0 else "failed", "seconds": limit}
    reply: dict[str, Any] = json.loads(lines[-1])
    return reply if reply["seconds"] <= limit else {"answer": "limit", "seconds": limit}


def forked(work: Callable[[Say], dict[str, Any]], limit: float) -> tuple[dict[str, Any] | None, float]:
    """Return what the work returns and the CPU seconds of a process that does it, with those of all solvers that it starts.

    Where they were killed at the limit: what the work said last, None where it said nothing. What was read before is not read
    again: the process is a copy of this one.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        most = math.ceil(limit) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))  # of each process: should nobody watch any more
        try:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8") as pipe:

                def say(told: dict[str, Any]) -> None:
                    print(json.dumps(told), file=pipe, flush=True)

                say(work(say))
        finally:
            os._exit(0)
    os.close(writing)
    pieces, killed = [], False
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            if select.select([pipe], [], [], 0.05)[0]:
                piece = pipe.read(1 << 20)
                if not piece:
                    break
                pieces.append(piece)
            elif not killed and family_seconds(child) > limit:
                os.killpg(child, signal.SIGKILL)
                killed = True
    _, _, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    *_, last = [None, *b"".join(pieces).split(b"\n")[:-1]]  # a line that was cut short does not count
    if last is None and not killed:
        raise RuntimeError("the process ended without an answer; what it printed says why")
    return None if last is None else json.loads(last), limit if killed else seconds


def family_seconds(process: int) -> float:
    """Return the CPU seconds of a process and of all that it has started, ended or not (Linux)."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0.0
    used = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return used + sum(family_seconds(int(one)) for one in children)


def main(prepare: str, limit: float) -> None:
    """Read a question, answer it within its CPU seconds, tell the answer and the seconds."""
    module, function = prepare.split(":")
    ask = getattr(importlib.import_module(module), function)(json.loads(sys.stdin.read()))
    used = time.process_time()
    whole = math.ceil(used + limit)
    resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))  # the hard limit kills, whatever is ignored
    reply, times = ask(), 1
    while time.process_time() - used < SHORT:
        ask()
        times += 1
    print(json.dumps({"answer": reply, "seconds": (time.process_time() - used) / times}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
