"""Run the commands of examples/demo.sh where there may be no shell: what tests an installed wheel on every system."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tempfile
from glob import glob
from pathlib import Path

DEMO = Path(__file__).resolve().parents[1] / "examples" / "demo.sh"
FOUND = 10  # the exit code of a command that has found something


def commands(folder: str) -> list[list[str]]:
    """Return the arguments of every command that the script says."""
    said = re.findall(r"^say (?!\(\))(.+)$", DEMO.read_text(encoding="utf-8"), re.MULTILINE)
    return [[word.replace("$DIR", folder) for word in shlex.split(line)] for line in said]


def main() -> None:
    """Run them in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        asked = commands(Path(folder).as_posix())
        assert asked, f"no commands in {DEMO}"
        for words in asked:
            arguments = [found for word in words for found in (glob(word) if "*" in word else [word])]
            print(f"\n$ polvet {shlex.join(arguments)}", flush=True)
            code = subprocess.run([sys.executable, "-m", "polvet", *arguments]).returncode
            if code not in (0, FOUND):
                sys.exit(code)


if __name__ == "__main__":
    main()
