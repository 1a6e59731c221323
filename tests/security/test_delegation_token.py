"""What may be done with a delegation token, by whom, and until when."""

from __future__ import annotations

import pytest

from protocol.errors import ErrorCode
from security.delegation_token import (
    DelegationToken,
    TokenTable,
    TokenTimes,
    expired,
    is_described,
    issued,
    renewed,
    token_hmac,
    token_password,
)
from security.principal import Principal

TIMES = TokenTimes(lifetime_max_ms=7000, renewal_ms=1000)
ALICE, BOB, CAROL, ADMIN = (Principal("User", name) for name in ("alice", "bob", "carol", "admin"))
NOW_MS = 100_000


def token(**given: object) -> DelegationToken:
    values: dict[str, object] = {"lifetime_ms": -1, "owner": ALICE, "requester": ADMIN, "renewers": (BOB,), **given}
    return issued("id", times=TIMES, now_ms=NOW_MS, **values)  # type: ignore[arg-type]


def test_the_hmac_is_that_of_apache_kafka() -> None:
    # Of a running Apache Kafka 3.9.1 with delegation.token.secret.key=token-secret.
    hmac = token_hmac("token-secret", "L14qGhdlSkuEUexsVosv_w")
    assert hmac.hex() == (
        "a11cdb6443966b142fd9bd1334482c33380fa61ef799fb0ddfce3f01d2cd925a"
        "73a40f06ec6b28f4362204ddd2fc38e936e899b95ae80de0a2e18c036f53653a"
    )
    assert token_password(b"\xff\xfe") == "//4="


@pytest.mark.parametrize(
    ("lifetime_ms", "max_ms", "expires_ms"),
    [
        (-1, 7000, 1000),
        (0, 7000, 1000),
        (9000, 7000, 1000),
        (5000, 5000, 1000),
        (500, 500, 500),
        (2**63 - 1, 7000, 1000),
    ],
)
def test_times_of_a_new_token(lifetime_ms: int, max_ms: int, expires_ms: int) -> None:
    made = token(lifetime_ms=lifetime_ms)
    assert (made.issued_ms, made.max_ms - NOW_MS, made.expires_ms - NOW_MS) == (NOW_MS, max_ms, expires_ms)


@pytest.mark.parametrize(
    ("principal", "period_ms", "after_ms", "result"),
    [
        (ALICE, -1, 500, 1500),
        (BOB, 3000, 500, 3500),
        (BOB, 0, 500, 500),
        (ALICE, 2**63 - 1, 500, 7000),
        (ADMIN, -1, 500, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (CAROL, -1, 1001, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, -1, 1000, 2000),
        (ALICE, -1, 1001, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_renewal(principal: Principal, period_ms: int, after_ms: int, result: int | ErrorCode) -> None:
    answer = renewed(token(), principal, period_ms, TIMES, NOW_MS + after_ms)
    if isinstance(answer, DelegationToken):
        assert answer.expires_ms == NOW_MS + result
    else:
        assert answer is result


@pytest.mark.parametrize(
    ("principal", "period_ms", "after_ms", "result"),
    [
        (ALICE, -1, 500, None),
        (BOB, -1, 5000, None),
        (CAROL, -1, 500, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH),
        (ALICE, 0, 500, 500),
        (ALICE, 200, 500, 700),
        (ALICE, 20_000, 500, 7000),
        (ALICE, 0, 1001, ErrorCode.DELEGATION_TOKEN_EXPIRED),
    ],
)
def test_expiry(principal: Principal, period_ms: int, after_ms: int, result: int | ErrorCode | None) -> None:
    answer = expired(token(), principal, period_ms, NOW_MS + after_ms)
    if isinstance(answer, DelegationToken):
        assert answer.expires_ms == NOW_MS + (result or 0)
    else:
        assert answer is result


@pytest.mark.parametrize(
    ("asking", "owners", "may_describe", "is_there"),
    [
        (ALICE, None, False, True),
        (BOB, None, False, True),
        (CAROL, None, False, False),
        (CAROL, None, True, True),
        (ADMIN, None, False, False),
        (ALICE, [CAROL], True, False),
        (CAROL, [ALICE], False, False),
        (CAROL, [ALICE, CAROL], True, True),
        (CAROL, [BOB], True, True),
        (ALICE, [BOB], False, True),
    ],
)
def test_description(asking: Principal, owners: list[Principal] | None, may_describe: bool, is_there: bool) -> None:
    assert is_described(token(), asking, owners, lambda _: may_describe) is is_there


def test_the_table_finds_by_id_and_by_hmac() -> None:
    table = TokenTable("secret")
    known = table.put(token(), 100)
    assert known.hmac == token_hmac("secret", "id") and table.by_id("id") is table.by_hmac(known.hmac) is known
    newer = table.put(token(lifetime_ms=10), 30)
    assert table.kept_bytes == 30
    assert table.by_hmac(known.hmac) is newer and list(table) == [newer] and len(table) == 1
    assert known.password == token_password(known.hmac) and known.password not in repr(known)
    assert repr(known.hmac) not in repr(known)
    assert table.expired_ids(NOW_MS + 10) == [] and table.expired_ids(NOW_MS + 11) == ["id"]
    table.keep_only(["id", "other"])
    table.remove("other")
    assert len(table) == 1
    table.keep_only([])
    assert table.by_id("id") is table.by_hmac(known.hmac) is None and len(table) == table.kept_bytes == 0
