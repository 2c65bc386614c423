"""A line chart as SVG text: a few series of percentages over iterations. Colours come from the page's style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polvet.report.markup import text

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640.0, 240.0, 62.0, 20.0, 16.0, 42.0
SHAPES = ("circle", "square")


def percent_chart(title: str, series: Mapping[str, Sequence[float | None]]) -> str:
    """Return the chart; series differ in colour, in dash and in the shape of their points, and are labelled at the end."""
    count = max((len(values) for values in series.values()), default=0)
    top = chart_top([value for values in series.values() for value in values if value is not None])

    def x(k: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (k / (count - 1) if count > 1 else 0.5)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    parts = [f"<title>{text(title)}</title>", '<g class="grid">']
    for tick in range(5):
        value = top * tick / 4
        parts.append(f'<line x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text x="{LEFT - 6:g}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}%</text>')
    stride = max(1, count // 12)
    for k in range(0, count, stride):
        parts.append(f'<text x="{x(k):.1f}" y="{HEIGHT - 22:g}" text-anchor="middle">{k}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{HEIGHT - 5:g}" text-anchor="middle">repairs</text></g>')
    for number, (name, values) in enumerate(series.items()):
        points = [(k, x(k), y(value), value) for k, value in enumerate(values) if value is not None]
        path = " ".join(f"{px:.1f},{py:.1f}" for _, px, py, _ in points)
        parts.append(f'<g class="series-{number}"><polyline points="{path}"/>')
        for k, px, py, value in points:
            label = f"<title>{text(name)} after {k} repairs: {value:.2f}</title>"
            parts.append(_mark(SHAPES[number % len(SHAPES)], px, py, label))
        parts.append("</g>")
    described = f'role="img" aria-label="{text(title)}"'
    legend = "".join(
        f'<li class="series-{k}"><svg aria-hidden="true" viewBox="0 0 28 12" width="28" height="12">'
        f'<polyline points="0,6 28,6"/>{_mark(SHAPES[k % len(SHAPES)], 14, 6, "")}</svg> {text(name)}</li>'
        for k, name in enumerate(series)
    )
    return (
        f'<figure class="chart"><svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" {described}>{"".join(parts)}</svg>'
        f'<figcaption><ul class="legend">{legend}</ul></figcaption></figure>'
    )


def _mark(shape: str, x: float, y: float, title: str) -> str:
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4">{title}</circle>'
    return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8">{title}</rect>'


def chart_top(values: Sequence[float]) -> float:
    """Return the top of the axis for the values: the next round number.

    >>> [chart_top(values) for values in ([], [0.3], [5.3, 1.0], [94.7])]
    [1.0, 1.0, 10.0, 100.0]
    """
    greatest = max(values, default=0.0)
    return next((top for top in (1.0, 2.0, 5.0, 10.0, 20.0, 50.0) if greatest <= top), 100.0)
