"""What a request was before a proxy passed it on: who sent it, over TLS or not. Pure.

Rules: X-Forwarded-For and X-Forwarded-Proto count only from addresses that `barnabas.web.trusted.proxies` names: the address
that the outermost of these proxies has seen, and the last scheme. From anybody else they have no effect. X-Forwarded-Host
never counts, since many proxies pass on what a client writes there: `barnabas.web.base.uri` says what the page's address is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

from config.web import Network


class Sender(NamedTuple):
    """`address` is who has asked, `scheme` is http or https. `is_direct`: no trusted proxy is between."""

    address: str
    scheme: str
    is_direct: bool


class TrustedProxies:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    def includes(self, address: str) -> bool:
        parsed = _parsed(address)
        return parsed is not None and any(parsed in network for network in self._networks)

    def sender(self, peer: str, scheme: str, forwarded_for: Sequence[str], forwarded_proto: Sequence[str]) -> Sender:
        """Return who asks. `peer` and `scheme` are the connection's own, the rest are the values of the headers."""
        if not self.includes(peer):
            return Sender(peer, scheme, is_direct=True)
        hops = [each.strip() for line in forwarded_for for each in line.split(",")]
        address = peer
        for hop in reversed(hops):
            if _parsed(hop) is None:
                break
            address = hop
            if not self.includes(hop):
                break
        told = forwarded_proto[-1].rpartition(",")[2].strip().lower() if forwarded_proto else scheme
        return Sender(address, "https" if told == "https" else "http", is_direct=False)


def is_loopback(address: str) -> bool:
    parsed = _parsed(address)
    return parsed is not None and parsed.is_loopback


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return None
    return (parsed.version == 6 and parsed.ipv4_mapped) or parsed
