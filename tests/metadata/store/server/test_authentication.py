"""Who a client is. What access lists come of it is compared with ZooKeeper in tests/differential/store."""

from __future__ import annotations

import pytest

from metadata.store.port import OPEN_ACL, Acl
from metadata.store.server.authentication import SUPER, InvalidAclError, StoreUsers, digest_id

USERS = StoreUsers(
    super_digest=digest_id(b"super:word"),
    sasl_passwords={"boss": "a", "user": "b"},
    sasl_super_user="boss",
    x509_super_user="CN=boss",
)


def test_super_users_are_those_that_are_named() -> None:
    assert USERS.of_auth("digest", b"super:word", "h") == (SUPER, ("digest", digest_id(b"super:word")))
    assert USERS.of_auth("digest", b"super:other", "h") == (("digest", digest_id(b"super:other")),)
    assert USERS.of_sasl("boss") == (("sasl", "boss"), SUPER)
    assert USERS.of_sasl("user") == (("sasl", "user"),)
    assert USERS.of_certificate("CN=boss") == (("x509", "CN=boss"), SUPER)
    assert USERS.of_certificate("CN=user") == (("x509", "CN=user"),)
    assert StoreUsers().of_auth("digest", b"super:word", "h") == (("digest", digest_id(b"super:word")),)
    for scheme in ("super", "sasl", "x509", "world", "auth", ""):
        assert USERS.of_auth(scheme, b"", "h") is None
    assert "word" not in repr(USERS)


def test_auth_stands_for_every_proof_but_the_address() -> None:
    proofs = [("ip", "10.0.0.1"), ("sasl", "user"), SUPER, ("x509", "CN=a"), ("digest", "u:d")]
    stored = USERS.checked_acl([Acl(3, "auth", "whatever")], proofs)
    assert stored == (Acl(3, "sasl", "user"), Acl(3, "x509", "CN=a"), Acl(3, "digest", "u:d"))
    assert USERS.checked_acl(OPEN_ACL * 2, ()) == OPEN_ACL
    with pytest.raises(InvalidAclError):
        USERS.checked_acl([Acl(3, "auth", "")], [("ip", "10.0.0.1"), SUPER])


@pytest.mark.parametrize(
    ("scheme", "identity", "is_valid"),
    [
        ("world", "anyone", True), ("world", "", False), ("ip", "::1", True), ("ip", "::1/129", False),
        ("ip", "10.0.0.0/8", True), ("ip", "10.0.0.0/", False), ("ip", "10.0.0.0/-1", False), ("ip", "host", False),
        ("digest", "a:b", True), ("digest", ":b", False), ("digest", "a:", False), ("x509", "CN=a", True), ("x509", "a", False),
        ("sasl", "a", True), ("sasl", "", False), ("super", "", False), ("other", "a", False),
    ],
)  # fmt: skip
def test_ids_are_checked_by_their_scheme(scheme: str, identity: str, *, is_valid: bool) -> None:
    if is_valid:
        assert USERS.checked_acl([Acl(1, scheme, identity)], ()) == (Acl(1, scheme, identity),)
    else:
        with pytest.raises(InvalidAclError):
            USERS.checked_acl([Acl(1, scheme, identity)], ())
