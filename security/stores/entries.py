"""What a store of Java contains: private keys, each with its chain, and trusted certificates, all under aliases.

Pure. Rules: keys and passwords are in no repr and no error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key. `decrypted` returns it in the form of PKCS #8 (DER), given the password of the key, and raises ValueError.
    `chain` has its certificates (DER), its own first."""

    alias: str
    decrypted: Callable[[str], bytes] = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TrustedEntry:
    alias: str
    certificate: bytes


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """The entries in the order of the file."""

    keys: tuple[KeyEntry, ...] = ()
    trusted: tuple[TrustedEntry, ...] = ()
