"""A seeded part of `tests.fuzz.messages` for every run of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import messages

ROOT = Path(__file__).parents[2]
CASES = 4000

WORST = """
from tests.fuzz.messages import peak_bytes, run_expensive
from tests.protocol.instances import message_classes
names = ("MetadataRequest", "ProduceRequest", "CreateTopicsRequest", "UpdateMetadataRequest", "JoinGroupRequest")
frames = run_expensive([cls for cls in message_classes() if cls.__name__ in names])
print(frames, peak_bytes())
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_damaged_messages(seed: int) -> None:
    taken = messages.run(seed, CASES // 3)
    assert 0 < taken < CASES // 3 // 2, "the mutations are too weak or too strong to tell anything"


def test_expensive_frames_in_bounded_memory() -> None:
    """In a process of its own, because the peak of this one is everybody's."""
    done = subprocess.run([sys.executable, "-c", WORST], cwd=ROOT, capture_output=True, text=True, check=True)
    frames, peak = map(int, done.stdout.split())
    assert frames >= 12
    assert peak < messages.PEAK_BYTES
