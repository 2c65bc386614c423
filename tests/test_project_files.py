"""The files around the sources agree: the changelog, the citation, the hooks before a commit, the pages of the site."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

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
