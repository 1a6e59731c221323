"""The room that stays free on a disk when nobody has said how much."""

from __future__ import annotations

from config.disk_floor import MiB, default_floor_bytes


def test_the_default_floor() -> None:
    GiB = 1024 * MiB
    assert default_floor_bytes(GiB, 100 * GiB) == 2 * GiB
    assert default_floor_bytes(MiB, 100 * GiB) == 256 * MiB
    assert default_floor_bytes(GiB, 400 * MiB) == 100 * MiB
