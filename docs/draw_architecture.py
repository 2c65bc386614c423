"""Draw the rooms of the project: docs/architecture.svg, one box per room with its size, one arrow per import that no others imply.

Run it from the repository's root: python -m docs.draw_architecture. A test compares the picture with the source.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
PICTURE = Path(__file__).parent / "architecture.svg"
WIDTH, HEIGHT, ACROSS, DOWN, MARGIN = 104.0, 42.0, 22.0, 44.0, 16.0
STYLE = (
    "text{font:13px sans-serif;fill:#1b2027;text-anchor:middle}.size{font-size:11px;fill:#525c68}"
    ".room{fill:#eef3f9;stroke:#5b7690}.check .room{fill:#e3f4e9;stroke:#17663a}.arrow{fill:none;stroke:#8b98a5;stroke-width:1.2}"
)
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#8b98a5"/></marker>'
)
Arrows = Mapping[str, frozenset[str]]


def room_of(file: Path) -> str:
    """Return the room that a file of `src/polvet` belongs to: its folder, or the file itself."""
    return file.relative_to(SOURCE / "polvet").parts[0].removesuffix(".py")


def python_files() -> list[Path]:
    """Return the files of all rooms, without the package's own two."""
    files = sorted((SOURCE / "polvet").rglob("*.py"))
    return [file for file in files if room_of(file) not in ("__init__", "__main__")]


def imports_of(file: Path) -> list[tuple[int, str]]:
    """Return every room that the file imports, with the line."""
    rooms = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module == "polvet":
            names = [f"polvet.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("polvet."):
            names = [node.module or ""]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("polvet.")]
        rooms += [(node.lineno, name.split(".")[1]) for name in names]
    return rooms


def sizes() -> dict[str, int]:
    """Return the lines of each room; `_core` is the C++ beneath the kernel."""
    lines: dict[str, int] = {}
    for file in python_files():
        lines[room_of(file)] = lines.get(room_of(file), 0) + len(file.read_text(encoding="utf-8").splitlines())
    core = [file for file in (SOURCE / "_core").rglob("*") if file.suffix in (".h", ".cpp", ".inl")]
    return lines | {"_core": sum(len(file.read_text(encoding="utf-8").splitlines()) for file in core)}


def arrows() -> Arrows:
    """Return for each room those that it imports, without those that another of its imports leads to anyway."""
    rooms = sizes()
    direct: dict[str, set[str]] = {room: set() for room in rooms}
    for file in python_files():
        direct[room_of(file)] |= {room for _, room in imports_of(file) if room in rooms} - {room_of(file)}

    def beneath(room: str) -> set[str]:
        return direct[room].union(*(beneath(one) for one in direct[room]))

    return {
        room: frozenset(one for one in imports if not any(one in beneath(other) for other in imports - {one}))
        for room, imports in direct.items()
    }


def places(graph: Arrows) -> dict[str, tuple[float, int]]:
    """Return each room's column and floor: below all that it imports, near the middle of them."""

    def floor(room: str) -> int:
        return max((floor(one) + 1 for one in graph[room]), default=0)

    found: dict[str, tuple[float, int]] = {}
    floors: dict[int, list[str]] = {}
    for room in sorted(graph):
        floors.setdefault(floor(room), []).append(room)
    widest = max(map(len, floors.values()))
    for number, rooms in sorted(floors.items()):

        def middle(room: str) -> float:
            columns = [found[one][0] for one in graph[room]]
            return sum(columns) / len(columns) if columns else 0.0

        for k, room in enumerate(sorted(rooms, key=lambda room: (middle(room), room))):
            found[room] = (k - (len(rooms) - 1) / 2 + (widest - 1) / 2, number)
    return found


def draw() -> str:
    """Return the picture as SVG text."""
    graph, lines = arrows(), sizes()
    where = places(graph)

    def corner(room: str) -> tuple[float, float]:
        column, floor = where[room]
        return MARGIN + column * (WIDTH + ACROSS), MARGIN + floor * (HEIGHT + DOWN)

    parts = []
    for room, imports in sorted(graph.items()):
        x, y = corner(room)
        for one in sorted(imports):
            to_x, to_y = corner(one)
            ends = (
                f"M{x + WIDTH / 2:g} {y:g}C{x + WIDTH / 2:g} {y - DOWN:g} {to_x + WIDTH / 2:g} {to_y + HEIGHT + DOWN:g}"
            )
            path = f"{ends} {to_x + WIDTH / 2:g} {to_y + HEIGHT + 6:g}"
            parts.append(f'<path class="arrow" data-from="{room}" data-to="{one}" d="{path}" marker-end="url(#head)"/>')
    for room in sorted(graph):
        x, y = corner(room)
        parts.append(
            f'<g class="{"check" if room == "check" else "other"}" data-room="{room}" data-lines="{lines[room]}">'
            f'<rect class="room" x="{x:g}" y="{y:g}" width="{WIDTH:g}" height="{HEIGHT:g}" rx="6"/>'
            f'<text x="{x + WIDTH / 2:g}" y="{y + 18:g}">{room}</text>'
            f'<text class="size" x="{x + WIDTH / 2:g}" y="{y + 34:g}">{_about(lines[room])} lines</text></g>'
        )
    width = max(corner(room)[0] for room in graph) + WIDTH + MARGIN
    height = max(corner(room)[1] for room in graph) + HEIGHT + MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>The rooms of polvet; an arrow leads to what a room imports</title><style>{STYLE}</style><defs>{HEAD}</defs>"
        f'<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _about(lines: int) -> str:
    """Return the number of lines, rounded.

    >>> _about(87), _about(1234), _about(12_345)
    ('90', '1,200', '12,300')
    """
    return f"{round(lines, -1 if lines < 1000 else -2):,}"


if __name__ == "__main__":
    PICTURE.write_text(draw(), encoding="utf-8")
