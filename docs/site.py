"""The order of the pages, for mkdocs: pages that are not named here follow in a section of their own.

The tables of `benchmarks/results` become pages under `measured/` as they are, with their pictures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

SECTIONS: dict[str, tuple[str, ...]] = {
    "Start": ("index", "python", "for-stable-baselines3", "for-prism-and-storm", "for-planners", "faq", "gallery"),
    "Tutorials": (
        "tutorial-1-decide",
        "tutorial-2-debug",
        "tutorial-3-verify",
        "tutorial-4-shield",
        "tutorial-5-terminates",
        "tutorial-6-gym",
        "tutorial-7-planning",
        "tutorial-8-general",
    ),
    "Policies": (
        "policies",
        "running",
        "debugging",
        "fuzzing",
        "faults",
        "repair",
        "verification",
        "report",
        "gate",
        "scale",
    ),
    "Worlds": ("safety", "mdp", "shields", "termination", "figures"),
    "Believing it": ("trust", "semantics", "references"),
    "Reference": (
        "install",
        "task-file",
        "formats",
        "exit-codes",
        "glossary",
        "architecture",
        "extending",
        "dependencies",
        "reference",
    ),
}

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"


def measured() -> list[Path]:
    """Return the benchmark tables."""
    return sorted(RESULTS.glob("*.md"))


def on_files(files: Any, config: Any) -> Any:
    """Return the files with the benchmark tables and their pictures."""
    from mkdocs.structure.files import File

    for path in (*measured(), *sorted(RESULTS.glob("*.svg"))):
        files.append(File.generated(config, f"measured/{path.name}", abs_src_path=str(path)))
    return files


def on_config(config: Any) -> Any:
    """Return the configuration with the navigation: every page that exists, once."""
    found = {file.stem for file in Path(config["docs_dir"]).glob("*.md")}
    nav: list[dict[str, list[str]]] = []
    for title, names in SECTIONS.items():
        here = [f"{name}.md" for name in names if name in found]
        found -= set(names)
        nav.append({title: here})
    nav.append({"Measured": [f"measured/{path.name}" for path in measured()]})
    if found:
        nav.append({"More": [f"{name}.md" for name in sorted(found)]})
    config["nav"] = nav
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with links to benchmark tables, which stand outside of the pages' folder, led to their pages."""
    return markdown.replace("](../benchmarks/results/", "](measured/")
