"""Tokens as providers write them, and the keys that sign them."""

from __future__ import annotations

import functools
import json
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

NOW_S = 1_800_000_000
CLAIMS = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600}


@functools.cache
def rsa_key(number: int = 0, bits: int = 2048) -> rsa.RSAPrivateKey:
    """One of several keys; each is made once."""
    del number
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@functools.cache
def curve_key(name: str = "P-256") -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key({"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}[name])


def rsa_row(key: rsa.RSAPrivateKey, **more: Any) -> dict[str, Any]:
    return {**RSAAlgorithm.to_jwk(key.public_key(), as_dict=True), **more}


def curve_row(key: ec.EllipticCurvePrivateKey, **more: Any) -> dict[str, Any]:
    return {**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), **more}


def document(*rows: dict[str, Any]) -> bytes:
    return json.dumps({"keys": list(rows)}).encode()


def signed(
    key: Any,
    algorithm: str = "RS256",
    key_id: str | None = None,
    *,
    claims: dict[str, Any] | None = None,
    **changed: Any,
) -> str:
    """A token with `CLAIMS`; a claim that is changed to None is missing."""
    values = {name: value for name, value in {**(claims or CLAIMS), **changed}.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(values, key, algorithm=algorithm, headers=headers)


def unsecured(**changed: Any) -> str:
    return signed(None, "none", **changed)
