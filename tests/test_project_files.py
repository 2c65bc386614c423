"""The files around the sources agree: the changelog, the citation, the hooks before a commit, the pages of the site."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_versions_of_the_changelog_are_closed_with_a_date_except_the_one_in_the_making():
    headings = re.findall(r"^## (.*)$", text_of("CHANGELOG.md"), re.MULTILINE)
    versions = [re.fullmatch(r"(\d+)\.(\d+)\.(\d+) \((.*)\)", heading) for heading in headings]
    assert all(versions), headings
    numbers = [tuple(map(int, one.groups()[:3])) for one in versions if one is not None]
    assert numbers == sorted(numbers, reverse=True)
    for one in versions[1:]:
        assert one is not None
        date.fromisoformat(one[4])


def test_the_citation_is_of_the_last_closed_version():
    citation = dict(re.findall(r"^([a-z-]+): (.*)$", text_of("CITATION.cff"), re.MULTILINE))
    closed = re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", text_of("CHANGELOG.md"), re.MULTILINE)
    assert closed is not None
    assert (citation["version"], citation["date-released"]) == (closed[1], closed[2])
    assert {"cff-version", "message", "title", "license", "type"} <= set(citation)
    assert "authors:\n  - " in text_of("CITATION.cff")


def test_hooks_run_what_lint_runs_at_a_pinned_version():
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", text_of("Makefile"), re.MULTILINE)
    assert lint is not None
    pinned = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]["dev"]
    tools = re.findall(r"entry: \.venv/bin/(.*)", text_of(".pre-commit-config.yaml"))
    assert len(tools) == 3
    for tool in tools:
        words = tool.split()
        named = " ".join(word for word in words if not word.startswith("-"))
        assert f"$(BIN)/{named}" in lint[1]
        assert any(one.startswith(f"{words[0]}==") for one in pinned)


def test_every_page_can_be_reached_from_the_readme_or_the_start_page():
    reachable = text_of("README.md") + text_of("docs/index.md")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name in reachable or page.stem in ("index", "reference", "boxes"), f"{page.name} is linked nowhere"


def test_targets_that_contributing_names_are_there():
    targets = re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    assert targets is not None
    named = set(re.findall(r"(?:^|`)make (\w+)", text_of("CONTRIBUTING.md"), re.MULTILINE))
    assert {"test", "quick", "lint", "docs"} <= named
    assert named <= set(targets[1].split())


def programs_of_make() -> Iterator[tuple[str, list[str]]]:
    """Yield the modules and scripts that the targets let Python run, with their arguments; a loop runs each of its scripts."""
    targets = re.search(r"^\.PHONY: (.*)$", text_of("Makefile"), re.MULTILINE)
    assert targets is not None
    make = ["make", "-n", "-B", *targets[1].split()]
    shown = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for line in shown.replace("\\\n", " ").splitlines():
        loop = re.match(r"for (\w+) in (.*?);", line)
        for name in [""] if loop is None else loop[2].split():
            own = line if loop is None else line.replace(f"${loop[1]}", name)
            if found := re.search(r"\S/python (?:-m )?(\.?\w[\w./]*)([^|;]*)", own):
                yield found[1], shlex.split(found[2])


def assert_known(module: str, arguments: list[str]) -> None:
    """Check that there is such a module or script of this project, and that its help names the options."""
    if "/" in module:
        assert (ROOT / module).is_file(), f"there is no {module}"
        return
    assert importlib.util.find_spec(module) is not None, f"there is no module {module}"
    options = [word for word in arguments if re.match(r"--?[a-z]", word)]
    if options:
        help_ = subprocess.run([sys.executable, "-m", module, "--help"], cwd=ROOT, capture_output=True, text=True)
        assert help_.returncode == 0, help_.stderr
        for option in options:
            assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_.stdout), f"{module} has no {option}"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_targets_run_modules_scripts_and_options_that_are_there():
    known = {
        marker.split(":")[0]
        for marker in tomllib.loads(text_of("pyproject.toml"))["tool"]["pytest"]["ini_options"]["markers"]
    }
    ran = Counter()
    for module, arguments in programs_of_make():
        ran[module if "/" in module else module.split(".")[0]] += 1
        if module == "pytest":
            if "-m" in arguments:
                assert set(re.findall(r"\w+", arguments[arguments.index("-m") + 1])) - {"not", "and"} <= known
            assert all((ROOT / word).exists() for word in arguments if word.startswith("tests"))
        elif module not in ("pip", "venv"):
            assert_known(module, arguments)
    assert {"pytest", "tests", "benchmarks", ".ci/sanitize"} <= {*ran}
    assert ran["benchmarks"] > 10


def test_programs_of_this_project_that_tests_run_know_their_options():
    """Tests of the cluster, of peers and slow ones are seldom run: what they call may not go unnoticed."""
    found = 0
    for file in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.List | ast.Tuple):
                words = [one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                if re.match("-m (benchmarks|tests|docs)[.]", " ".join(words)):
                    assert_known(words[1], words[2:])
                    found += 1
    assert found > 0


def test_ci_runs_every_kind_of_test():
    named = {word for line in re.findall(r"make (.*)", text_of(".ci/run")) for word in line.split()}
    assert {"demo", "test", "lint", "docs", "peers", "cluster", "sanitize"} <= named
