"""Where a share group begins, as Java reads it."""

from __future__ import annotations

import pytest

from config.offset_reset import OffsetReset, ResetKind

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H", HOUR_MS),
        ("P2DT3H4M5.678S", 51 * HOUR_MS + 4 * 60_000 + 5_678),
        ("p1d", 24 * HOUR_MS),
        ("PT0S", 0),
        ("PT1.0009999S", 1_000),
        ("PT2,5S", 2_500),
        ("PT1H-30M", HOUR_MS // 2),
        ("PT1H-0.5S", HOUR_MS - 500),
        ("-PT-1M", 60_000),
        ("+PT+1M", 60_000),
    ],
)
def test_durations(text: str, duration_ms: int) -> None:
    assert OffsetReset.parse(f"by_duration:{text}") == OffsetReset(ResetKind.BY_DURATION, duration_ms)


@pytest.mark.parametrize("kind", [ResetKind.LATEST, ResetKind.EARLIEST])
def test_words(kind: ResetKind) -> None:
    assert OffsetReset.parse(kind.value) == OffsetReset(kind)


@pytest.mark.parametrize(
    "text",
    ["", "none", "Latest", "by_duration", "by_duration:", *(f"by_duration:{bad}" for bad in ("1h", "P", "PT", "P1DT", "PT1",
     "-PT1M", "PT-1S", "P1Y", "PT1H ", f"PT{2**63}S"))],
)  # fmt: skip
def test_what_it_cannot_be(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        OffsetReset.parse(text)
