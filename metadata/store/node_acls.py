"""Access lists of nodes: as text, and who may do what by them. Pure.

Rules: an entry counts when it has the permission and names the client: everybody (world:anyone), an address or a network
(ip), or an identity that a scheme of authentication has established, which must be equal. An identity of the scheme `super`
may do everything. An empty list closes nothing.
Source: ZooKeeper ZooKeeperServer.checkACL, IPAuthenticationProvider, DigestAuthenticationProvider, X509AuthenticationProvider.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from metadata.store.port import OPEN_ACL, Acl, Permission

Identities = frozenset[tuple[str, str]]
"""(scheme, identity) of everything that a client has authenticated as; its address is ("ip", address)."""

ANYONE = ("world", "anyone")
SUPER_SCHEME = "super"
IP_SCHEME = "ip"
PARSED_MAX = 1_000
LISTS_MAX = 128  # nodes that are alike come one after the other


@lru_cache(maxsize=LISTS_MAX)
def encoded(acl: tuple[Acl, ...]) -> str | None:
    """As JSON; None is the open list."""
    return None if acl == OPEN_ACL else json.dumps(acl)


@lru_cache(maxsize=LISTS_MAX)
def decoded(text: str | None) -> tuple[Acl, ...]:
    """One object for nodes that are made together with equal lists."""
    return OPEN_ACL if text is None else tuple(Acl(*entry) for entry in json.loads(text))


def permits(acl: Sequence[Acl], permission: Permission, identities: Identities) -> bool:
    if not acl:
        return True
    for permissions, scheme, identity in acl:
        if not permissions & permission:
            continue
        named = (scheme, identity)
        if named == ANYONE or named in identities:
            return True
        if scheme == IP_SCHEME and any(
            kind == IP_SCHEME and is_in_network(address, identity) for kind, address in identities
        ):
            return True
    return any(scheme == SUPER_SCHEME for scheme, _ in identities)


def is_in_network(address: str, network: str) -> bool:
    """Whether `address` is in `network`, an address or address/bits. What is neither contains nothing."""
    parsed = _network(network)
    try:
        return parsed is not None and ip_address(address) in parsed
    except ValueError:
        return False


@lru_cache(maxsize=PARSED_MAX)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None
