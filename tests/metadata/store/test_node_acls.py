"""Who may do what, as ZooKeeper's providers decide it."""

from __future__ import annotations

import pytest

from metadata.store.node_acls import decoded, encoded, permits
from metadata.store.port import OPEN_ACL, Acl, Permission

ALICE, ADDRESS = ("sasl", "alice"), ("ip", "10.1.2.3")
READ, WRITE = Permission.READ, Permission.WRITE


@pytest.mark.parametrize(
    ("acl", "permission", "identities", "is_permitted"),
    [
        (OPEN_ACL, WRITE, (), True),
        ((), WRITE, (), True),
        ((Acl(1, "world", "anyone"),), READ, (), True),
        ((Acl(1, "world", "anyone"),), WRITE, (ADDRESS, ALICE), False),
        ((Acl(1, "world", "anyone"), Acl(31, "sasl", "alice")), WRITE, (ALICE,), True),
        ((Acl(31, "sasl", "alice"),), READ, (("x509", "alice"),), False),
        ((Acl(31, "sasl", "alice"),), READ, (), False),
        ((Acl(0, "sasl", "alice"),), READ, (ALICE,), False),
        ((Acl(0, "sasl", "alice"),), READ, (("super", ""),), True),
        ((Acl(2, "ip", "10.1.2.3"),), WRITE, (ADDRESS,), True),
        ((Acl(2, "ip", "10.1.2.4"),), WRITE, (ADDRESS,), False),
        ((Acl(2, "ip", "10.1.2.4/24"),), WRITE, (ADDRESS,), True),
        ((Acl(2, "ip", "10.1.3.0/23"),), WRITE, (ADDRESS,), True),
        ((Acl(2, "ip", "10.1.4.0/23"),), WRITE, (ADDRESS,), False),
        ((Acl(2, "ip", "0.0.0.0/0"),), WRITE, (ADDRESS,), True),
        ((Acl(2, "ip", "10.1.2.0/24"),), WRITE, (("digest", "10.1.2.3"),), False),
        ((Acl(2, "ip", "::1"),), WRITE, (("ip", "::1"),), True),
        ((Acl(2, "ip", "::/0"),), WRITE, (ADDRESS,), False),
        ((Acl(2, "ip", "here"),), WRITE, (ADDRESS,), False),
        ((Acl(2, "ip", "10.0.0.0/8"),), WRITE, (("ip", "?"),), False),
    ],
)
def test_permits(
    acl: tuple[Acl, ...], permission: Permission, identities: tuple[tuple[str, str], ...], is_permitted: bool
) -> None:
    assert permits(acl, permission, frozenset(identities)) is is_permitted


@pytest.mark.parametrize("acl", [OPEN_ACL, (), (Acl(1, "x509", 'CN=a, O="b"'), Acl(31, "digest", "a:b="))])
def test_a_list_is_read_back(acl: tuple[Acl, ...]) -> None:
    assert decoded(encoded(acl)) == acl
    assert decoded(encoded(tuple(acl))) is decoded(encoded(acl))
