"""A thread that the system does not start: the others end, and the caller hears of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Address space for the stack of one more thread or two, not of eight.
DECIDING = """
import resource
from tests.safety.games import Game, decide
decider = Game(tuple(((k,),) for k in range(1000))).decider("lazy", share=True, threads=8)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, resource.RLIM_INFINITY))
try:
    decide(decider, range(1000))
except RuntimeError as error:
    print("told:", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(set(decide(decider, range(1000))[0]))
"""
EXPLORING = """
import resource
from polvet.errors import Where
from polvet.kernel.compiled import Compiled
from polvet.model.instantiate import instantiate
from polvet.prism import load_prism
counters = "".join(f"module {name}{name} {name} : [0..80]; [] {name}<80 -> ({name}'={name}+1); endmodule\\n" for name in "xyz")
compiled = Compiled(instantiate(load_prism("mdp\\n" + counters, Where("counters"), "counters")))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 20 * 2**20, resource.RLIM_INFINITY))
try:
    compiled.explore(threads=8)
except RuntimeError as error:
    print("told:", error)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(len(compiled.explore(threads=8)))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the limit on address space is Linux's")
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="a sanitizer takes address space of its own")
@pytest.mark.parametrize(("script", "answer"), [(DECIDING, "{2}"), (EXPLORING, "531441")], ids=["decide", "explore"])
def test_a_thread_that_cannot_be_started_is_told_and_leaves_the_rest_usable(script, answer):
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["told: Resource temporarily unavailable", answer]
