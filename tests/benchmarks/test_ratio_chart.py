"""The picture at the head of docs/performance.md shows the ratios of that page."""

from __future__ import annotations

from benchmarks.ratio_chart import PAGE, PICTURE, Row, chart, rows_of


def test_the_picture_is_that_of_the_page() -> None:
    """`make docs` draws it again."""
    assert PICTURE.read_text(encoding="utf-8") == chart(rows_of(PAGE.read_text(encoding="utf-8")))


def test_rows_have_the_load_of_the_row_above_and_the_title_of_their_section() -> None:
    page = (
        "## One broker\n\n| load | figure | ours / Kafka | the limit |\n|---|---|---|---|\n"
        "| produce | per second | 1.50 (1.4 to 1.6) | |\n| | processor | 0.40 | |\n| connect | per second | not measured | |\n"
        "\n## TLS\n\n| load | figure | ours | ours / Kafka |\n|---|---|---|---|\n| commit | commits per second | 335 | 0.90 |\n"
        "\n## Memory\n\n| figure | ours |\n|---|---|\n| open files | 18 |\n"
    )
    rows = rows_of(page)
    assert rows == [
        Row("produce", 1.5, is_rate=True),
        Row("produce, processor", 0.4, is_rate=False),
        Row("TLS: commit", 0.9, is_rate=True),
    ]
    assert [row.is_better for row in rows] == [True, True, False]
