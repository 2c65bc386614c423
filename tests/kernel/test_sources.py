"""All C++ is in one namespace, so no two files may give it the same name: the linker would quietly take one for the other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "src" / "_core"
NAMES = re.compile(
    r"(?:template <.*> )?(?:struct|class|enum class|enum) (\w+)(?: final)?(?: : [^{]*)? \{"
    r"|using (\w+) ="
    r"|(?:inline )?(?:constexpr|const) [\w:<> ]+? (\w+)(?: = |\{|\[)"
)


def shared_names(text: str) -> set[str]:
    """Return the types and constants that a file gives to `namespace polvet`; what is in another or a nameless one is its own."""
    names: set[str] = set()
    inner = 0
    for line in text.splitlines():
        if re.match(r"namespace (?!polvet \{).*\{$", line):
            inner += 1
        elif re.match(r"\}  // namespace(?! polvet$)", line):
            inner -= 1
        elif inner == 0 and (match := NAMES.match(line)):
            names.add(next(name for name in match.groups() if name))
    return names


@pytest.mark.skipif(not CORE.exists(), reason="the source of the kernels is not here")
def test_no_two_files_share_a_name():
    owner: dict[str, Path] = {}
    twice = []
    for file in sorted(CORE.rglob("*")):
        if file.suffix in (".h", ".cpp"):
            for name in shared_names(file.read_text(encoding="utf-8")):
                if owner.setdefault(name, file) != file:
                    twice.append((name, owner[name].name, file.name))
    assert len(owner) > 150
    assert twice == []


def test_nameless_namespaces_are_left_out():
    own = "namespace {\nstruct B {\n};\n}  // namespace\n"
    text = f"namespace polvet {{\nstruct A {{\n}};\n{own}constexpr int C = 1;\n}}  // namespace polvet\n"
    assert shared_names(text) == {"A", "C"}
