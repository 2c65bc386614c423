"""Processes whose clocks count their own CPU seconds, so that limits mean the same on a busy machine, inside kernels too.

`with_cpu_clock()` starts the running benchmark again with a small library in front of libc's `clock_gettime`: what asks for monotonic
time (`time.monotonic`, `std::chrono::steady_clock`) is told how many CPU seconds the process has used. Linux, with a C compiler.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import mkdtemp

SOURCE = """
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    return (int)syscall(SYS_clock_gettime, which == CLOCK_MONOTONIC ? CLOCK_PROCESS_CPUTIME_ID : which, now);
}
"""
PRELOAD = "LD_PRELOAD"


def with_cpu_clock() -> None:
    """Go on in a process with that clock; in such a one, see that it counts right, and that its children have a plain one."""
    if os.environ.pop(PRELOAD, None) is None:
        library = Path(mkdtemp(prefix="cpu-clock-")) / "cpu_clock.so"
        command = ["cc", "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(library)]
        subprocess.run(command, input=SOURCE.encode(), check=True)
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | {PRELOAD: str(library)})
    begun = time.monotonic()
    time.sleep(0.2)
    if time.monotonic() - begun > 0.1:
        raise RuntimeError("this process's monotonic clock counts more than CPU seconds")
