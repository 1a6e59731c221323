from __future__ import annotations

import pytest

from runtime.suggestions import did_you_mean

NAMES = ("retention.ms", "retention.bytes", "segment.ms")


@pytest.mark.parametrize(
    ("name", "told"),
    [("retention.mz", ": did you mean retention.ms?"), ("segmnt.ms", ": did you mean segment.ms?"), ("zzz", "")],
)
def test_the_nearest_name_is_meant(name: str, told: str) -> None:
    assert did_you_mean(name, NAMES) == told
