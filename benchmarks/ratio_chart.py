"""`python -m benchmarks.ratio_chart`: draw the ratios of docs/performance.md as docs/pictures/ratios.svg.

The page is the only place with the figures. This module reads its tables that have the column `ours / Kafka`; the picture has
one bar for each row with a ratio. A bar begins at 1 (as fast as Apache Kafka). Rates and costs are two groups: a larger ratio
is better for a rate, a smaller one for a latency, processor time or memory. The axis is logarithmic.

Rules: pure but for `main`; standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE, PICTURE = ROOT / "docs" / "performance.md", ROOT / "docs" / "pictures" / "ratios.svg"
COLUMN = "ours / Kafka"
WIDTH, ROW_HEIGHT, LEFT, RIGHT, HEAD = 940, 20, 430, 60, 34
SMALLEST, LARGEST = 0.005, 10.0
GRID = (0.01, 0.1, 1.0, 10.0)
BETTER, WORSE = "#2f7d4f", "#b5533c"
_RATIO = re.compile(r"[0-9.]+")


class Row(NamedTuple):
    """`is_rate`: a larger ratio is better."""

    label: str
    ratio: float
    is_rate: bool

    @property
    def is_better(self) -> bool:
        return self.ratio >= 1 if self.is_rate else self.ratio <= 1


def rows_of(page: str) -> list[Row]:
    """The rows with a ratio of all tables of a page in Markdown."""
    found: list[Row] = []
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        title = section.split("\n", 1)[0]
        for table in re.findall(r"(?:^\|.*\n)+", section, flags=re.MULTILINE):
            found += _rows_of_table(table, "" if title == "One broker" else f"{title}: ")
    return found


def _rows_of_table(table: str, prefix: str) -> Iterator[Row]:
    head, _, *lines = [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()]
    if COLUMN not in head:
        return
    column, load = head.index(COLUMN), ""
    for cells in lines:
        load = cells[0] or load
        figure, ratio = cells[1], _RATIO.match(cells[column])
        if ratio is None:
            continue
        is_rate = figure.endswith("per second")
        yield Row(f"{prefix}{load}" + ("" if is_rate else f", {figure}"), float(ratio[0]), is_rate)


def _x(ratio: float) -> float:
    share = (math.log(ratio) - math.log(SMALLEST)) / (math.log(LARGEST) - math.log(SMALLEST))
    return LEFT + (WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0)


def chart(rows: list[Row]) -> str:
    """The picture: rates above, costs below, a line at 1."""
    parts: list[str] = []
    top = 10.0
    for title, is_rate in (
        ("Rates: longer to the right is better", True),
        ("Latency, processor time, memory: longer to the left is better", False),
    ):
        group = [row for row in rows if row.is_rate is is_rate]
        parts.append(f'<text x="10" y="{top + 18:.0f}" font-weight="bold">{title}</text>')
        top += HEAD
        bottom = top + len(group) * ROW_HEIGHT
        for ratio in GRID:
            colour = "#444" if ratio == 1 else "#ccc"
            parts.append(
                f'<line x1="{_x(ratio):.1f}" x2="{_x(ratio):.1f}" y1="{top:.0f}" y2="{bottom:.0f}" stroke="{colour}"/>'
            )
            parts.append(
                f'<text x="{_x(ratio):.1f}" y="{bottom + 14:.0f}" text-anchor="middle" fill="#666">{ratio:g}</text>'
            )
        for row in group:
            parts += _bar(row, top)
            top += ROW_HEIGHT
        top += HEAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top:.0f}" font-family="sans-serif" font-size="12">'
        f"<title>Ratios to Apache Kafka 3.9.1</title>\n"
        f'<rect width="{WIDTH}" height="{top:.0f}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _bar(row: Row, top: float) -> Iterator[str]:
    start, end = sorted((_x(1.0), _x(row.ratio)))
    width = max(end - start, 1)
    colour = BETTER if row.is_better else WORSE
    yield f'<text x="{LEFT - 10}" y="{top + 14:.0f}" text-anchor="end">{escape(row.label)}</text>'
    yield f'<rect x="{start:.1f}" y="{top + 4:.0f}" width="{width:.1f}" height="{ROW_HEIGHT - 8}" fill="{colour}"/>'
    anchor, x = ("start", end + 4) if row.ratio >= 1 else ("end", start - 4)
    yield f'<text x="{x:.1f}" y="{top + 14:.0f}" text-anchor="{anchor}">{row.ratio:.2f}</text>'


def main() -> None:
    PICTURE.write_text(chart(rows_of(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
