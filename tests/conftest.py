"""What all tests share: where other people's benchmark files are, if they are there."""

from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "shared" / "benchmarks"
