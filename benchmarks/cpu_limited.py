"""One question per process, on one thread; the system kills what takes more CPU seconds than the limit, without asking.

The process imports `module:function`, calls it with the question (reading, imports and whatever a verification makes once are
done there), and measures what that returns. Short answers are given again until there is something to measure.
"""

from __future__ import annotations

import importlib
import json
import math
import resource
import subprocess
import sys
import time
from typing import Any

SHORT = 0.2


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
