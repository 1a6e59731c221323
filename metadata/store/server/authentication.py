"""Who the client of a connection is, and which access lists it may give a node. Pure.

    ip      the address of the connection
    digest  name and password, sent by addauth; the id is `name:base64(sha1(name:password))`
    sasl    a user who has logged in by DIGEST-MD5
    x509    the subject of a TLS client's certificate
    super   whoever knows the super user's password, or is the super user of SASL or X.509: no access list binds it

Rules: pure. An access list is checked, and `auth` in it is replaced by the connection's identities, before the tree stores it.
Source: ZooKeeper DigestAuthenticationProvider, IPAuthenticationProvider, X509AuthenticationProvider,
SASLAuthenticationProvider, PrepRequestProcessor.fixupACL.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from typing import Final

from metadata.store.port import Acl

Identity = tuple[str, str]
"""A scheme, and an id in it."""
SUPER: Final[Identity] = ("super", "")
_EXPANDED: Final = ("digest", "sasl", "x509")
"""The schemes whose identities `auth` stands for."""


class InvalidAclError(Exception):
    """The access list is empty, or names a scheme or an id that there is not."""


def digest_id(credentials: bytes) -> str:
    """Return the id of `name:password`."""
    name = credentials.decode("utf-8", "replace").split(":", 1)[0]
    digest = hashlib.sha1(credentials, usedforsecurity=False).digest()
    return f"{name}:{base64.b64encode(digest).decode()}"


@dataclass(frozen=True, slots=True)
class StoreUsers:
    """The users of a server. `sasl_passwords` are by user; `super_digest` is a digest id."""

    super_digest: str | None = None
    sasl_passwords: Mapping[str, str] = field(default_factory=dict, repr=False)
    sasl_super_user: str | None = None
    x509_super_user: str | None = None

    def of_certificate(self, subject: str) -> tuple[Identity, ...]:
        own = ("x509", subject)
        return (own, SUPER) if subject == self.x509_super_user else (own,)

    def of_auth(self, scheme: str, credentials: bytes, host: str) -> tuple[Identity, ...] | None:
        """Return what an addauth proves; None for a scheme that cannot be used so."""
        if scheme == "ip":
            return (("ip", host),)
        if scheme != "digest":
            return None
        own = digest_id(credentials)
        return (SUPER, ("digest", own)) if own == self.super_digest else (("digest", own),)

    def of_sasl(self, username: str) -> tuple[Identity, ...]:
        own = ("sasl", username)
        return (own, SUPER) if username == self.sasl_super_user else (own,)

    def checked_acl(self, acl: Sequence[Acl], identities: Iterable[Identity]) -> tuple[Acl, ...]:
        """Return the access list as it is stored. Raises InvalidAclError."""
        stored: list[Acl] = []
        for each in dict.fromkeys(acl):
            if each.scheme == "auth":
                own = [Acl(each.permissions, *identity) for identity in identities if identity[0] in _EXPANDED]
                if not own:
                    raise InvalidAclError(each.scheme)
                stored += own
            elif self._is_valid(each.scheme, each.identity):
                stored.append(each)
            else:
                raise InvalidAclError(f"{each.scheme}:{each.identity}")
        if not stored:
            raise InvalidAclError("the list is empty")
        return tuple(stored)

    def _is_valid(self, scheme: str, identity: str) -> bool:
        match scheme:
            case "world":
                return identity == "anyone"
            case "digest":
                name, separator, digest = identity.partition(":")
                return bool(separator and name and digest) and ":" not in digest
            case "ip":
                return _is_network(identity)
            case "x509":
                return "=" in identity
            case "sasl":
                return bool(identity)
        return False


def user_names(identities: Iterable[Identity]) -> list[Identity]:
    """Return the identities as whoAmI tells them: without what belongs to a password."""
    return [(scheme, name.partition(":")[0] if scheme == "digest" else name) for scheme, name in identities]


def hidden_digests(acl: Iterable[Acl]) -> list[Acl]:
    """Return an access list as those see it who may not change it."""
    return [
        Acl(each.permissions, each.scheme, f"{each.identity.partition(':')[0]}:x") if each.scheme == "digest" else each
        for each in acl
    ]


def _is_network(identity: str) -> bool:
    address, separator, bits = identity.partition("/")
    try:
        width = 32 if isinstance(ip_address(address), IPv4Address) else 128
    except ValueError:
        return False
    return not separator or (bits.isascii() and bits.isdecimal() and int(bits) <= width)
