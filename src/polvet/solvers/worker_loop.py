"""The other end of `Worker`: answers lines of JSON; whatever the solver itself prints goes nowhere."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from polvet.system import limit_memory_for_good


def serve(answer: Callable[[Any], Any]) -> None:
    """Answer every line of stdin with a line of JSON on the real stdout, until stdin ends."""
    megabytes = int(os.environ.get("POLVET_WORKER_MB", "0"))
    if megabytes:
        limit_memory_for_good(megabytes)
    out = os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(reply) + "\n")
        out.flush()
