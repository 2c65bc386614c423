"""What all tests share: where other people's benchmark files are, and the same random examples on every run of CI."""

import os
from pathlib import Path

from hypothesis import settings

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "shared" / "benchmarks"

settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
