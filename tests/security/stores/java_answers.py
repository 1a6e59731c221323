"""Our answers to the questions of `tests.oracle.key_stores`, compared with Java's; where they differ, that is meant."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from security.stores.entries import PasswordError
from security.tls.key_store import read_key_store, read_trust_store

_READ_FORMS = ("JKS", "PKCS12", "PEM")
_DIGEST_DIGITS = 32
_OF_PASSWORDS = ("assword", "recover key", "integrity check", "not properly padded")


def verify(case: Mapping[str, Any], store: bytes, of_own_type: Mapping[str, Any]) -> None:
    """Compare our answer about a store with Java's. `of_own_type` is Java's about the same store under its own type."""
    name, answer = case.get("trust", case.get("keys")), ours(store, case)
    assert name is not None
    if name.startswith("form "):
        # The content decides, whatever the type is; what is not read is refused by its name.
        form = name.split()[1]
        if case["password"] is None and (form == "PKCS12" or (form == "JKS" and "keys" in case)):
            assert isinstance(answer, PasswordError), case
        elif form in _READ_FORMS:
            assert answer == of_own_type["certificates"], case
        else:
            assert f"it is a {form} store, which is not read" in str(answer), case
    elif "not encrypted" in name and case["password"] in ("", None):
        assert isinstance(answer, list), case  # Java takes no key that is not encrypted
    elif case.get("certificates"):
        assert answer == case["certificates"], case
    else:  # to Java a trust store may be empty, also because it has a password that is not given
        assert isinstance(answer, ValueError), case
        is_of_password = any(text in case.get("error", "") for text in _OF_PASSWORDS)
        assert isinstance(answer, PasswordError) or not is_of_password, (case, answer)


def ours(store: bytes, question: Mapping[str, Any]) -> list[str] | ValueError:
    """The digests of the certificates that are shown or trusted, or the error."""
    try:
        if "trust" in question:
            return sorted(map(_digest, read_trust_store(store, question["password"])))
        return list(map(_digest, read_key_store(store, question["password"], question["key_password"]).chain))
    except ValueError as error:
        return error


def _digest(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()[:_DIGEST_DIGITS]
