"""Signed tokens: whose signature is believed, and which claims are accepted."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from security.sasl.oauth_keys import KeysDocumentError, KeySet
from security.sasl.oauth_signed import ClaimRules, SignedTokenValidator
from security.sasl.oauth_token import BearerToken, TokenRefused
from tests.security.sasl.bearer_tokens import (
    CLAIMS,
    NOW_S,
    curve_key,
    curve_row,
    document,
    rsa_key,
    rsa_row,
    signed,
    unsecured,
)


def keys() -> KeySet:
    return KeySet.parse(
        document(
            rsa_row(rsa_key(), kid="one", use="sig"),
            rsa_row(rsa_key(1), kid="two", alg="RS512"),
            *(curve_row(curve_key(name), kid=name) for name in ("P-256", "P-384", "P-521")),
        )
    )


class Fixture:
    def __init__(self, **rules: Any) -> None:
        self.asked: list[str] = []
        self.keys = keys()
        self.validator = SignedTokenValidator(
            ClaimRules(**rules), lambda: self.keys, lambda: NOW_S * 1000, self.asked.append
        )

    def refusal(self, token: str) -> str:
        with pytest.raises(TokenRefused) as caught:
            self.validator.validated(token)
        assert caught.value.status == "invalid_token"
        assert token not in str(caught.value)
        return str(caught.value)


@pytest.mark.parametrize("algorithm", ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"])
def test_each_rsa_algorithm(algorithm: str) -> None:
    token = signed(rsa_key(), algorithm, "one", scope=["a", "b"])
    expected = BearerToken("alice", CLAIMS["exp"] * 1000, frozenset(("a", "b")))  # type: ignore[operator]
    assert Fixture().validator.validated(token) == expected


@pytest.mark.parametrize(("curve", "algorithm"), [("P-256", "ES256"), ("P-384", "ES384"), ("P-521", "ES512")])
def test_each_curve(curve: str, algorithm: str) -> None:
    assert Fixture().validator.validated(signed(curve_key(curve), algorithm, curve)).name == "alice"


def test_a_token_without_key_id_is_tried_with_each_key() -> None:
    assert Fixture().validator.validated(signed(rsa_key(1), "RS512")).name == "alice"


def test_a_key_of_another_token_is_refused() -> None:
    fixture = Fixture()
    assert "signature" in fixture.refusal(signed(rsa_key(2), key_id="one"))
    assert "signature" in fixture.refusal(signed(rsa_key(), key_id="one")[:-6] + "AAAAAA")
    assert "no known key" in fixture.refusal(signed(rsa_key(1), "RS256", "two"))  # it is for RS512
    assert fixture.asked == ["two"]
    assert "no known key" in fixture.refusal(signed(rsa_key(), key_id="new"))
    assert fixture.asked == ["two", "new"]


def _with_header(token: str, **header: Any) -> str:
    part = base64.urlsafe_b64encode(json.dumps(header).encode()).rstrip(b"=").decode()
    return f"{part}.{token.split('.', 1)[1]}"


def test_no_token_chooses_a_weaker_algorithm() -> None:
    fixture = Fixture()
    assert "three parts" in fixture.refusal(unsecured())
    assert "not signed with" in fixture.refusal(_with_header(signed(rsa_key()), alg="none"))
    public = rsa_key().public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    for algorithm, digest in (("HS256", "sha256"), ("HS384", "sha384"), ("HS512", "sha512")):
        unsigned = _with_header(signed(rsa_key()), alg=algorithm, kid="one").rpartition(".")[0]
        signature = base64.urlsafe_b64encode(hmac.digest(public, unsigned.encode(), digest)).rstrip(b"=").decode()
        assert "not signed with" in fixture.refusal(f"{unsigned}.{signature}")
    for wrong in ("EdDSA", "RS257", None, 7, ["RS256"], {"RS256": 1}):
        assert "not signed with" in fixture.refusal(_with_header(signed(rsa_key()), alg=wrong))
    assert "key id" in fixture.refusal(_with_header(signed(rsa_key()), alg="RS256", kid=["one"]))
    assert "signature" in fixture.refusal(
        _with_header(signed(rsa_key()), alg="RS256", kid="one", crit=["b64"], b64=False)
    )


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": None}, "exp or iat is missing"),
        ({"iat": None}, "exp or iat is missing"),
        ({"exp": NOW_S - 30}, "has expired"),
        ({"exp": "soon"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 2**60}, "exp is no time"),
        ({"nbf": NOW_S + 31}, "not valid yet"),
        ({"nbf": NOW_S + 20, "exp": NOW_S + 10}, "expires before it begins"),
        ({"iat": NOW_S + 900}, "expires before it begins"),
        ({"iat": -1}, "iat is negative"),
        ({"sub": None}, "claim sub"),
        ({"sub": "  "}, "claim sub"),
        ({"sub": 7}, "claim sub"),
        ({"aud": "kafka"}, "audiences"),
        ({"scope": ["a", "a"]}, "scope"),
        ({"scope": ["a", " "]}, "scope"),
        ({"scope": {"a": 1}}, "neither a text nor a list"),
    ],
)
def test_claims_that_are_refused(claims: dict[str, Any], reason: str) -> None:
    # `encode` of the library checks some claims itself.
    values = {name: value for name, value in {**CLAIMS, **claims}.items() if value is not None}
    token = jwt.api_jws.PyJWS().encode(json.dumps(values).encode(), rsa_key(), "RS256", {"kid": "one"})
    assert reason in Fixture().refusal(token)


@pytest.mark.parametrize(
    "claims",
    [
        {"iat": NOW_S - 99, "exp": NOW_S - 29},
        {"nbf": NOW_S + 30},
        {"iat": NOW_S + 100},
        {"scope": "one two"},
        {"scope": None},
    ],
)
def test_claims_that_are_accepted(claims: dict[str, Any]) -> None:
    assert Fixture().validator.validated(signed(rsa_key(), key_id="one", **claims)).name == "alice"


def test_audience_and_issuer() -> None:
    fixture = Fixture(audiences=("kafka", "other"), issuer="https://issuer")
    good = {"aud": ["x", "kafka"], "iss": "https://issuer"}
    assert fixture.validator.validated(signed(rsa_key(), key_id="one", **good)).name == "alice"
    for wrong in ({"aud": "x"}, {"aud": []}, {"aud": None}):
        assert "audiences" in fixture.refusal(signed(rsa_key(), key_id="one", **{**good, **wrong}))
    for wrong in ({"iss": "https://issuer/"}, {"iss": None}):
        assert "issuer" in fixture.refusal(signed(rsa_key(), key_id="one", **{**good, **wrong}))


def test_names_of_claims_and_clock_skew() -> None:
    fixture = Fixture(name_claim="client_id", scope_claim="scp", clock_skew_s=0)
    token = signed(rsa_key(), key_id="one", client_id=" app ", scp=["x"])
    assert fixture.validator.validated(token) == BearerToken("app", (NOW_S + 600) * 1000, frozenset(("x",)))
    assert "client_id" in fixture.refusal(signed(rsa_key(), key_id="one"))
    assert "expired" in fixture.refusal(signed(rsa_key(), key_id="one", client_id="app", exp=NOW_S))


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: base64.urlsafe_b64encode(data).decode()))
def test_rubbish_is_refused(text: str) -> None:
    for token in (text, f"{text}.{text}.{text}", signed(rsa_key(), key_id="one").split(".")[0] + f".{text}.{text}"):
        with pytest.raises(TokenRefused):
            Fixture().validator.validated(token)


def test_a_deep_document_is_refused() -> None:
    deep = base64.urlsafe_b64encode(b'{"a":' * 100_000).decode()
    assert "JSON" in Fixture().refusal(f"{deep}.{deep}.x")


# --- documents of keys ---


def test_rows_that_cannot_verify_are_left_out() -> None:
    rows: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one"},
        rsa_row(rsa_key(), kid="one", use="enc"),
        rsa_row(rsa_key(9, 1024), kid="small"),
        rsa_row(rsa_key(), kid=7),
        {**rsa_row(rsa_key()), "n": "?"},
        {"kty": "RSA"},
        {**curve_row(curve_key()), "crv": "secp256k1"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": 5, "e": None},
        "rubbish",
        rsa_row(rsa_key(), kid="good", alg="RS256"),
    ]
    found = KeySet.parse(json.dumps({"keys": rows}).encode())
    assert [key.key_id for key in found.candidates(None, "RS256")] == ["good"] and len(found) == 1
    assert found.candidates(None, "PS256") == []


def test_a_private_key_is_read_as_its_public_part() -> None:
    row = {**jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key(), as_dict=True), "kid": "one"}
    (key,) = KeySet.parse(document(row)).candidates("one", "RS256")
    assert key.public_key.public_numbers() == rsa_key().public_key().public_numbers()
    assert not hasattr(key.public_key, "sign")


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b'{"keys": 3}', b'{"keys": []}', b'{"keys":[{"kty":"oct"}]}', b"[" * 200_000, b"x" * 2**21],
)
def test_documents_that_are_refused(text: bytes) -> None:
    with pytest.raises(KeysDocumentError):
        KeySet.parse(text)


def test_too_many_keys_are_refused() -> None:
    with pytest.raises(KeysDocumentError, match="more than 200 keys"):
        KeySet.parse(json.dumps({"keys": [{}] * 201}).encode())
