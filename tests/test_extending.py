"""`docs/extending.md` is tried by doing it: a copy of the project is extended as the page says, and the tests it shows pass there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import polvet._core
from tests.pages import blocks_in, files_in

ROOT = Path(__file__).resolve().parent.parent
PAGE = "extending.md"
PACKAGES = [str(Path(name).parent) for name in files_in(PAGE) if Path(name).name == "pyproject.toml"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The folder of a copy of the project in which everything on the page was done."""
    folder = tmp_path_factory.mktemp("extended")
    for part in ("src/polvet", "src/_core", "tests", "docs"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    shutil.copy(polvet._core.__file__, folder / "src" / "polvet")
    for name, language, text in blocks_in(PAGE):
        if language == "diff":
            change(folder / name, text)
        else:
            assert not (folder / name).exists(), f"{name} is there already"
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    for package in PACKAGES:
        install(folder / package)
    subprocess.run([sys.executable, "-m", "docs.draw_architecture"], cwd=folder, check=True, timeout=60)
    return folder


def install(package: Path) -> None:
    """Write beside the package what installing it writes about it: its name, and its entry points."""
    described = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    told = package / f"{described['name']}-{described['version']}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Name: {described['name']}\nVersion: {described['version']}\n")
    groups = described["entry-points"].items()
    lines = [line for group, values in groups for line in (f"[{group}]", *(f"{n} = {v}" for n, v in values.items()))]
    (told / "entry_points.txt").write_text("\n".join(lines) + "\n")


def change(file: Path, diff: str) -> None:
    """Make the change of a diff without line numbers: what it replaces stands in the file exactly once."""
    lines = diff.splitlines(keepends=True)
    assert all(line[0] in " +-" for line in lines), diff
    old, new = ("".join(line[1:] for line in lines if line[0] != sign).rstrip("\n") for sign in "+-")
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{file.name} does not hold this once:\n{old}"
    file.write_text(text.replace(old, new), encoding="utf-8")


def pytest_in(project: Path, *arguments: str) -> str:
    """Return what pytest says in the copy; an editable installation of polvet must not stand in the way, hence `-S`."""
    places = [
        str(project / "src"),
        *(str(project / one) for one in PACKAGES),
        *(entry for entry in sys.path if entry),
        str(project),
    ]
    path = os.pathsep.join(places)
    command = [sys.executable, "-S", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *arguments]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "POLVET_QUICK": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("file", [name for name in files_in(PAGE) if Path(name).name.startswith("test_")])
def test_what_the_page_shows_passes_its_tests(project, file):
    assert "passed" in pytest_in(project, file)


def test_the_new_world_obeys_what_all_worlds_obey(project):
    assert "passed" in pytest_in(project, "tests/domains", "tests/safety/test_domains.py", "-k", "ladder or picture")


def test_the_copy_is_what_was_tested(project):
    probe = "import polvet, polvet.graph, polvet.verify.interpreted; print(polvet.__file__)"
    path = os.pathsep.join([str(project / "src"), *(entry for entry in sys.path if entry)])
    done = subprocess.run(
        [sys.executable, "-S", "-c", probe],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(project)


def test_reference_pages_tell_of_what_was_added(project):
    assert "passed" in pytest_in(project, "tests/test_reference_pages.py", "-k", "told")


def test_the_table_of_methods_is_the_list_with_the_new_one(project):
    assert "passed" in pytest_in(project, "tests/test_choices.py", "-k", "table or name_it_is_found")


def test_new_files_are_as_lint_wants_them(project):
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent))
    if ruff is None:
        pytest.skip("ruff is not installed beside python")
    names = sorted({name for name, language, _ in blocks_in(PAGE) if name.endswith(".py")})
    for command in (["check"], ["format", "--check"]):
        done = subprocess.run([ruff, *command, *names], cwd=project, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
