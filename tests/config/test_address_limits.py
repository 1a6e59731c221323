"""Limits of single addresses."""

from __future__ import annotations

import pytest

from config.address_limits import address_limits
from config.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("", {}),
        ("127.0.0.1:5, [2001:DB8::0:1]:7,::1:0", {"127.0.0.1": 5, "2001:db8::1": 7, "::1": 0}),
        ("127.0.0.1 : 5,", {"127.0.0.1": 5}),
        ("10.0.0.1:2147483647", {"10.0.0.1": 2**31 - 1}),
    ],
)
def test_addresses_and_their_limits(text: str, limits: dict[str, int]) -> None:
    assert address_limits("name", text) == limits


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:-1",
        "127.0.0.1:2147483648",
        "127.0.0.1:" + "1" * 5_000,
        "host.org:5",
        ":5",
    ],
)
def test_what_is_neither_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^Error parsing configuration property 'name': "):
        address_limits("name", text)
