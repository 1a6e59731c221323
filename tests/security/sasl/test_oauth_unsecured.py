"""Unsecured tokens: only the form, the times and the scope are checked."""

from __future__ import annotations

from typing import Any

import pytest

from security.sasl.oauth_token import BearerToken, TokenRefused
from security.sasl.oauth_unsecured import (
    UnsecuredTokenValidator,
    names_unsecured,
    unsecured_extensions,
    unsecured_token,
)
from tests.security.sasl.bearer_tokens import CLAIMS, NOW_S, rsa_key, signed, unsecured


def validator(**options: str) -> UnsecuredTokenValidator:
    return UnsecuredTokenValidator(
        {f"unsecuredValidator{name}": text for name, text in options.items()}, lambda: NOW_S * 1000
    )


def test_a_token_is_accepted() -> None:
    expected = BearerToken("alice", (NOW_S + 600) * 1000, frozenset(("a", "b")))
    assert validator().validated(unsecured(scope="a b")) == expected
    assert validator().validated(unsecured(scope=["a", "b"])) == expected
    assert validator(RequiredScope="b  a").validated(unsecured(scope="b c a")).name == "alice"
    assert validator(PrincipalClaimName="user", ScopeClaimName="s").validated(unsecured(user="u", s="x")).name == "u"
    assert validator(AllowableClockSkewMs="2000").validated(unsecured(iat=None, exp=NOW_S - 1)).name == "alice"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"exp": None}, "exp is missing"),
        ({"exp": NOW_S}, "expired"),
        ({"iat": NOW_S + 1}, "in the future"),
        ({"iat": NOW_S, "exp": NOW_S}, "expired"),
        ({"sub": None}, "claim sub"),
        ({"sub": ""}, "claim sub"),
    ],
)
def test_claims_that_are_refused(changed: dict[str, Any], reason: str) -> None:
    with pytest.raises(TokenRefused, match=reason) as caught:
        validator().validated(unsecured(**changed))
    assert caught.value.status == "invalid_token"


def test_expiry_before_issue_is_refused() -> None:
    with pytest.raises(TokenRefused, match="before it was issued"):
        validator(AllowableClockSkewMs="9000").validated(unsecured(iat=NOW_S + 5, exp=NOW_S + 4))


def test_a_missing_scope_is_named() -> None:
    with pytest.raises(TokenRefused) as caught:
        validator(RequiredScope="a c").validated(unsecured(scope="a b"))
    assert (caught.value.status, caught.value.scope) == ("insufficient_scope", "[a, c]")


def test_a_signed_token_is_not_unsecured() -> None:
    with pytest.raises(TokenRefused, match="algorithm is not none"):
        validator().validated(signed(rsa_key()))
    with pytest.raises(TokenRefused, match="has a signature"):
        validator().validated(unsecured() + "AAAA")
    with pytest.raises(TokenRefused, match="three parts"):
        validator().validated(unsecured()[:-1])
    assert CLAIMS["sub"] == "alice"


@pytest.mark.parametrize("skew", ["-1", "x", "99999999999", "1.5"])
def test_options_that_are_refused(skew: str) -> None:
    with pytest.raises(ValueError, match="AllowableClockSkewMs"):
        validator(AllowableClockSkewMs=skew)


def test_which_options_name_unsecured_tokens() -> None:
    assert names_unsecured({"unsecuredLoginStringClaim_sub": "admin"}) and names_unsecured({"unsecuredValidatorX": ""})
    assert not names_unsecured({}) and not names_unsecured({"clientId": "unsecured"})


# --- the broker's own token ---


def test_an_own_token_is_accepted_by_others() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "broker",
        "unsecuredLoginListClaim_scope": "|a|b",
        "unsecuredLoginNumberClaim_n": "1.5",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginExtension_traceId": "7",
    }
    token = unsecured_token(options, NOW_S * 1000)
    assert validator().validated(token) == BearerToken("broker", (NOW_S + 60) * 1000, frozenset(("a", "b")))
    assert unsecured_extensions(options) == {"traceId": "7"}
    named = {"unsecuredLoginPrincipalClaimName": "me", "unsecuredLoginStringClaim_me": "x"}
    expected = BearerToken("x", (NOW_S + 3600) * 1000, frozenset())
    assert validator(PrincipalClaimName="me").validated(unsecured_token(named, NOW_S * 1000)) == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"unsecuredLoginStringClaim_sub": " "},
        {"unsecuredLoginNumberClaim_sub": "1"},
        {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_exp": "1"},
        {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_n": "x"},
        {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginNumberClaim_n": "nan"},
        {"unsecuredLoginStringClaim_sub": "x", "unsecuredLoginLifetimeSeconds": "1e99"},
    ],
)
def test_options_that_describe_no_token(options: dict[str, str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - one error for all
        unsecured_token(options, NOW_S * 1000)
