"""What a checker can import: `python -m tests.check.closure [--loaded]` prints a row for each kind of certificate.

decides     the checker, the interpreter and what a policy means: everything that can be imported without entering a reader
reads       what readers of files may import besides: every format of tasks, policies and plans
loaded      what is loaded when one certificate of the kind is checked: of the readers, those of the formats of its task and policy

Imports are read from the source, those inside of functions, the places of registries and the homes of names that packages import at first
use included; only what type checkers alone see is left out. With `--source FOLDER` another tree's are read.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
CHECKERS = ("polvet.check.checker", "polvet.evidence.check")
"""Where the checkers of all kinds are listed; `evidence` was their room once."""
READERS = (
    *("polvet.sources", "polvet.load", "polvet.jani", "polvet.prism", "polvet.pddl", "polvet.worlds"),
    *("polvet.policy.load", "polvet.policy.format", "polvet.policy.identity"),
    *(
        "polvet.policy.finite_memory.load",
        "polvet.policy.finite_memory.fmp_json",
        "polvet.policy.finite_memory.edge_list",
    ),
    *(
        "polvet.policy.finite_memory.its_text",
        "polvet.policy.finite_memory.sketch_lines",
        "polvet.policy.finite_memory.sketch_brackets",
    ),
)
"""Where the reading of files begins: a task's or model's text, a policy's bytes, a plan's text."""


def file_of(module, source=SOURCE):
    """Return the file of a module of polvet; None for names that are no modules."""
    path = source.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def lines_of(file):
    """Return how many lines a file has."""
    return len(file.read_text(encoding="utf-8").splitlines())


@cache
def homes_of(file):
    """Return the modules of names that a package imports at first use, as its `_HOMES` says."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body if file.name == "__init__.py" else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            homes: dict[str, str] = ast.literal_eval(node.value)
            return homes
    return {}


@cache
def imports_of(file, source=SOURCE):
    """Return the names of polvet that a file imports anywhere."""
    found, pending = set(), [ast.parse(file.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += node.orelse
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            package = file_of(node.module, source) if node.module.split(".")[0] == "polvet" else None
            homes = {} if package is None else homes_of(package)
            found |= {f"{node.module}.{homes[alias.name]}" for alias in node.names if alias.name in homes}
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Registry":
            texts = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
            found |= {text.split(":")[0] for text in texts if isinstance(text, str) and text.startswith("polvet.")}
        if (
            isinstance(node, ast.Call)
            and ast.unparse(node.func) == "import_module"
            and isinstance(node.args[0], ast.Constant)
        ):
            found.add(node.args[0].value)
        pending += ast.iter_child_nodes(node)
    return {name for name in found if name.split(".")[0] == "polvet"}


def is_reader(module):
    """Return whether reading files begins in that module, or in a package that it is in."""
    return any(module == one or module.startswith(one + ".") for one in READERS)


def closure(module, source=SOURCE, *, readers=True):
    """Return every module of polvet that importing this one, and calling anything in it, may load; without readers: none behind one."""
    found, pending = {}, [module]
    while pending:
        parts = pending.pop().split(".")
        for k in range(1, len(parts) + 1):
            name = ".".join(parts[:k])
            if is_reader(name) and not readers:
                break
            file = file_of(name, source)
            if file is not None and name not in found:
                found[name] = file
                pending += imports_of(file, source)
    return found


def checkers_of(source=SOURCE):
    """Return the module of the checker of each kind."""
    file = next(file for module in CHECKERS if (file := file_of(module, source)) is not None)
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "CHECKERS":
            return {kind: home.split(":")[0] for kind, home in ast.literal_eval(node.value).items()}
    raise ValueError(f"{file} lists no checkers")


@dataclass(frozen=True, slots=True)
class Size:
    """Modules and lines."""

    modules: int
    lines: int


@dataclass(frozen=True, slots=True)
class Base:
    """What has to be trusted for one kind of certificate; `loaded` where one was checked."""

    decides: Size
    reads: Size
    loaded: Size | None = None


def size_of(files):
    """Return the size of these files."""
    return Size(len(files), sum(map(lines_of, files)))


def bases(source=SOURCE):
    """Return the base of each kind by what can be imported."""
    found = {}
    for kind, home in sorted(checkers_of(source).items()):
        whole, decisive = closure(home, source), closure(home, source, readers=False)
        found[kind] = Base(
            size_of(decisive.values()), size_of([file for name, file in whole.items() if name not in decisive])
        )
    return found


PROBE = """
import json, sys
from pathlib import Path
try:
    from polvet.check.checker import Subjects, check_file
except ImportError:
    from polvet.evidence.check import Subjects, check_file
words = json.loads(sys.argv[1])
given = dict(zip(words[1::2], words[2::2]))
subjects = {"task": Path(given["--task"]), "policy": Path(given["--policy"]) if "--policy" in given else None}
if "--avoid" in given:
    subjects["options"] = None
answer = check_file(words[0], Subjects(**subjects))
loaded = [module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "polvet"]
print(json.dumps([type(answer).__name__, [file for file in loaded if file.endswith(".py")]]))
"""


def loaded(words, command=(sys.executable,), environment=None):
    """Return the files of polvet that are loaded when a certificate is checked in a process of its own; None where it is not accepted."""
    line = [*command, "-c", PROBE, json.dumps(words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    answer, files = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else (done.stderr[-300:], [])
    return [Path(file) for file in files] if answer == "Accepted" else None


def with_loaded(found, words_of, **where):
    """Return the bases with what is loaded when the certificates of these words are checked."""
    measured = {}
    for kind, base in found.items():
        files = loaded(words_of[kind], **where) if kind in words_of else None
        measured[kind] = Base(base.decides, base.reads, None if files is None else size_of(files))
    return measured


def table(found):
    """Return the rows as people read them."""
    lines = [f"{'kind':<18} {'decides':>15} {'reads':>15} {'loaded':>15}"]
    for kind, base in found.items():
        sizes = (base.decides, base.reads, base.loaded)
        shown = (" " * 15 if one is None else f"{one.modules:>6} {one.lines:>8,}" for one in sizes)
        lines.append(f"{kind:<18} {' '.join(shown)}")
    return "\n".join(lines)


def shares(source=SOURCE):
    """Return which rooms decide how many lines, for each kind."""
    found = {}
    for kind, home in sorted(checkers_of(source).items()):
        rooms: Counter[str] = Counter()
        for name, file in closure(home, source, readers=False).items():
            rooms[[*name.split("."), "polvet"][1]] += lines_of(file)
        found[kind] = dict(rooms.most_common())
    return found


def main():
    """Print modules and lines for each kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, default=SOURCE)
    parser.add_argument("--loaded", action="store_true", help="make and check one certificate of each kind, too")
    parser.add_argument("--rooms", action="store_true", help="the rooms of what decides, instead")
    parser.add_argument("--kind", help="the modules of what decides about this kind, instead")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.kind:
        for name, file in sorted(closure(checkers_of(given.source)[given.kind], given.source, readers=False).items()):
            print(f"{lines_of(file):>6} {name}")
        return
    if given.rooms:
        for kind, rooms in shares(given.source).items():
            print(f"{kind:<18} {', '.join(f'{room} {lines:,}' for room, lines in rooms.items())}")
        return
    found = bases(given.source)
    if given.loaded:
        from tests.check.kinds import make_all

        with tempfile.TemporaryDirectory() as folder:
            found = with_loaded(found, make_all(Path(folder)))
    print(json.dumps({kind: asdict(base) for kind, base in found.items()}, indent=1) if given.json else table(found))


if __name__ == "__main__":
    main()
