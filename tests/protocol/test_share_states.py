"""The key of a share partition."""

from __future__ import annotations

from protocol.share_states import share_key


def test_key_of_a_share_partition() -> None:
    assert share_key("a group", bytes(15) + b"\x01", 7) == "a group:AAAAAAAAAAAAAAAAAAAAAQ:7"
