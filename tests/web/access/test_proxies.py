"""Who has asked, where proxies are in front."""

from __future__ import annotations

import ipaddress

import pytest

from web.access.proxies import Sender, TrustedProxies, is_loopback

PROXIES = TrustedProxies([ipaddress.ip_network(each) for each in ("10.0.0.0/24", "127.0.0.1/32", "fd00::/64")])


@pytest.mark.parametrize(
    ("peer", "hops", "schemes", "expected"),
    [
        ("10.0.0.1", ["198.51.100.7"], ["https"], Sender("198.51.100.7", "https", False)),
        ("10.0.0.1", ["203.0.113.9, 198.51.100.7"], ["https"], Sender("198.51.100.7", "https", False)),
        ("10.0.0.1", ["198.51.100.7, 10.0.0.2", "10.0.0.3"], ["http, https"], Sender("198.51.100.7", "https", False)),
        ("10.0.0.1", ["10.0.0.9"], [], Sender("10.0.0.9", "http", False)),
        ("10.0.0.1", ["198.51.100.7, unknown"], ["ftp"], Sender("10.0.0.1", "http", False)),
        ("10.0.0.1", ["", ","], [""], Sender("10.0.0.1", "http", False)),
        ("10.0.0.1", [], [], Sender("10.0.0.1", "http", False)),
        ("::ffff:10.0.0.1", ["2001:db8::7"], ["HTTPS"], Sender("2001:db8::7", "https", False)),
        ("fd00::1", ["198.51.100.7"], [], Sender("198.51.100.7", "http", False)),
        # Anybody may write these headers; only proxies are believed.
        ("10.0.1.1", ["198.51.100.7"], ["https"], Sender("10.0.1.1", "http", True)),
        ("", ["198.51.100.7"], ["https"], Sender("", "http", True)),
    ],
)
def test_who_has_asked(peer: str, hops: list[str], schemes: list[str], expected: Sender) -> None:
    assert PROXIES.sender(peer, "http", hops, schemes) == expected


def test_loopback() -> None:
    assert [is_loopback(each) for each in ("127.8.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.1", "localhost", "")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
