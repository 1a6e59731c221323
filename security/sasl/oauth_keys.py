"""The public keys of a provider of tokens, read from its JWKS document. Pure.

Rules: keys are RSA of 2048 bits or more, or on the curves P-256, P-384 and P-521; keys of other types, or for encryption, are
left out. A key verifies with algorithms of its own type only: no token can have a public key used as a shared secret.
Source: RFC 7517, RFC 7518; Kafka JwksFileVerificationKeyResolver, RefreshingHttpsJwks; jose4j VerificationJwkSelector.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

DOCUMENT_BYTES_MAX: Final = 1024 * 1024
KEYS_MAX: Final = 200
RSA_BITS_MIN: Final = 2048
RSA_BITS_MAX: Final = 16_384

_RSA_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_CURVES: Final = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
ALGORITHMS: Final = (*_RSA_ALGORITHMS, *_CURVES.values())


class KeysDocumentError(ValueError):
    """A document is no JWKS, or has no key that can verify."""


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """`algorithms` are those that it verifies; `public_key` is an object of `cryptography`."""

    key_id: str | None
    algorithms: tuple[str, ...]
    public_key: Any = field(repr=False)


class KeySet:
    """The keys of one document."""

    def __init__(self, keys: tuple[VerificationKey, ...] = ()) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    @classmethod
    def parse(cls, document: bytes) -> KeySet:
        """Read a JWKS document. Raises KeysDocumentError."""
        if len(document) > DOCUMENT_BYTES_MAX:
            raise KeysDocumentError(f"the document is longer than {DOCUMENT_BYTES_MAX} bytes")
        try:
            value = json.loads(document)
        except (ValueError, RecursionError):
            raise KeysDocumentError("the document is no JSON") from None
        rows = value.get("keys") if isinstance(value, dict) else None
        if not isinstance(rows, list):
            raise KeysDocumentError('the document has no list "keys"')
        if len(rows) > KEYS_MAX:
            raise KeysDocumentError(f"the document has more than {KEYS_MAX} keys")
        keys = tuple(key for row in rows if isinstance(row, dict) and (key := _key(row)) is not None)
        if not keys:
            raise KeysDocumentError("the document has no RSA or EC key that can verify a signature")
        return cls(keys)

    def candidates(self, key_id: str | None, algorithm: str) -> list[VerificationKey]:
        """Return the keys that may have signed a token with this header; without an id there may be several."""
        return [key for key in self._keys if algorithm in key.algorithms and (key_id is None or key.key_id == key_id)]


def _key(row: Mapping[str, Any]) -> VerificationKey | None:
    """Return the key of a row; None if it cannot verify."""
    key_id, algorithm = row.get("kid"), row.get("alg")
    possible: tuple[str, ...]
    if row.get("use", "sig") != "sig" or not (key_id is None or isinstance(key_id, str)):
        return None
    match row.get("kty"):
        case "RSA":
            possible, public_key = _RSA_ALGORITHMS, _rsa_key(row)
        case "EC":
            possible, public_key = (_CURVES.get(str(row.get("crv")), ""),), _curve_key(row)
        case _:
            return None
    algorithms = tuple(each for each in possible if each and algorithm in (None, each))
    return VerificationKey(key_id, algorithms, public_key) if algorithms and public_key is not None else None


def _rsa_key(row: Mapping[str, Any]) -> Any:
    from jwt.algorithms import RSAAlgorithm  # noqa: PLC0415 - only who has such tokens loads it
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    try:  # without the parts of a private key, should they be there
        key = RSAAlgorithm.from_jwk({"kty": "RSA", "n": row["n"], "e": row["e"]})
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return key if RSA_BITS_MIN <= key.key_size <= RSA_BITS_MAX else None


def _curve_key(row: Mapping[str, Any]) -> Any:
    from jwt.algorithms import ECAlgorithm  # noqa: PLC0415 - as above
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    try:
        return ECAlgorithm.from_jwk({"kty": "EC", "crv": row["crv"], "x": row["x"], "y": row["y"]})
    except (PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        return None
