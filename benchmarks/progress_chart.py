"""Draws what a streaming query reports of its batches as SVG: records per second, lag, duration and state over time. Pure.

Rules: pure; standard library only. A point is one StreamingQueryProgress of a batch that did something.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from typing import NamedTuple

from barnabas.pipeline.progress import parse_batch

WIDTH, PANEL_HEIGHT = 760, 120
LEFT, RIGHT, TOP, GAP, BOTTOM = 74, 16, 44, 34, 40
STEPS = {
    "reading offsets": ("latestOffset", "getBatch", "queryPlanning"),
    "logging offsets": ("walCommit", "commitOffsets", "commitBatch"),
    "processing records": ("addBatch",),
}
"""The parts of a batch's duration, by what Spark calls them."""
COLOURS = ("#4878cf", "#d65f5f", "#6acc65")
TICKS = 3


class Point(NamedTuple):
    """`seconds` since the first batch began; `steps_ms` by the names of STEPS."""

    seconds: float
    records_per_s: float
    lag: float
    steps_ms: Mapping[str, float]
    state_rows: float


def points_of(events: Sequence[tuple[str, int | None]]) -> list[Point]:
    """The points of (JSON text of a progress, lag behind its batch); batches without records are left out."""
    found: list[Point] = []
    first: datetime | None = None
    for text, lag in events:
        batch, progress = parse_batch(text), json.loads(text)
        if not batch.read:
            continue
        began = datetime.fromisoformat(progress["timestamp"])
        first = first or began
        durations = progress["durationMs"]
        steps = {name: sum(durations.get(each, 0) for each in parts) for name, parts in STEPS.items()}
        ended_s = (began - first).total_seconds() + batch.duration_ms / 1000
        known = batch.lag if lag is None else lag
        found.append(Point(ended_s, batch.records_per_s, known or 0, steps, batch.state_rows))
    return found


def chart(title: str, points: Sequence[Point], *, with_state: bool = False) -> str:
    """The panels, one below the other, over one axis of time."""
    panels = [_bars("records per second", points), _line("lag in records", [(p.seconds, p.lag) for p in points])]
    panels.append(_stack(points))
    if with_state:
        panels.append(_line("rows of state", [(point.seconds, point.state_rows) for point in points]))
    height = TOP + len(panels) * (PANEL_HEIGHT + GAP) + BOTTOM - GAP
    end_s = max(points[-1].seconds, 1.0)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11" fill="#222">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, panel in enumerate(panels):
        drawn += panel.draw(TOP + number * (PANEL_HEIGHT + GAP), end_s)
    base = height - BOTTOM + 16
    for part in range(TICKS + 2):
        seconds = end_s * part / (TICKS + 1)
        drawn.append(f'<text x="{_x(seconds, end_s):.1f}" y="{base}" text-anchor="middle">{seconds:.0f} s</text>')
    return "\n".join([*drawn, "</svg>", ""])


class _Panel(NamedTuple):
    """`bars` are (seconds, bottom, top, colour); `line` is (seconds, value)."""

    name: str
    largest: float
    bars: Sequence[tuple[float, float, float, str]] = ()
    line: Sequence[tuple[float, float]] = ()
    legend: Sequence[tuple[str, str]] = ()

    def draw(self, top: float, end_s: float) -> list[str]:
        largest = _round_up(self.largest)

        def y(value: float) -> float:
            return top + PANEL_HEIGHT * (1 - value / largest)

        drawn = [f'<text x="{LEFT}" y="{top - 6}">{escape(self.name)}</text>']
        for number, (name, colour) in enumerate(self.legend):
            at = LEFT + 190 + number * 140
            drawn.append(f'<rect x="{at}" y="{top - 14}" width="9" height="9" fill="{colour}"/>')
            drawn.append(f'<text x="{at + 13}" y="{top - 6}">{escape(name)}</text>')
        for part in range(TICKS):
            value = largest * part / (TICKS - 1)
            drawn.append(
                f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,.0f}</text>'
            )
        wide = max(min((WIDTH - LEFT - RIGHT) / max(len({bar[0] for bar in self.bars}), 1) * 0.7, 14), 1.5)
        for seconds, low, high, colour in self.bars:
            drawn.append(
                f'<rect x="{_x(seconds, end_s) - wide / 2:.1f}" y="{y(high):.1f}" width="{wide:.1f}" '
                f'height="{y(low) - y(high):.1f}" fill="{colour}"/>'
            )
        if self.line:
            path = " ".join(f"{_x(seconds, end_s):.1f},{y(value):.1f}" for seconds, value in self.line)
            drawn.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.8"/>')
        return drawn


def _bars(name: str, points: Sequence[Point]) -> _Panel:
    bars = [(point.seconds, 0.0, point.records_per_s, COLOURS[0]) for point in points]
    return _Panel(name, max(point.records_per_s for point in points), bars)


def _line(name: str, line: Sequence[tuple[float, float]]) -> _Panel:
    return _Panel(name, max(value for _, value in line), line=line)


def _stack(points: Sequence[Point]) -> _Panel:
    bars = []
    for point in points:
        low = 0.0
        for name, colour in zip(STEPS, COLOURS, strict=True):
            bars.append((point.seconds, low, low + point.steps_ms[name], colour))
            low += point.steps_ms[name]
    largest = max(sum(point.steps_ms.values()) for point in points)
    return _Panel("duration of a batch in ms", largest, bars, legend=list(zip(STEPS, COLOURS, strict=True)))


def _x(seconds: float, end_s: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / end_s


def _round_up(value: float) -> float:
    """The next number of the form 1, 2, 4, 6 or 10 with zeros."""
    size = 1.0
    while size * 10 <= value:
        size *= 10
    return next((size * first for first in (1, 2, 4, 6, 10) if size * first >= value), size * 10)
