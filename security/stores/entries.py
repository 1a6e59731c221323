"""What a store of Java contains: private keys, each with its chain, and trusted certificates, all under aliases.

Pure. Rules: keys and passwords are in no repr and no error. Aliases are in lower case, as Java compares them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class PasswordError(ValueError):
    """A password is wrong, or missing: the store's, or with `of_key` the one of a private key."""

    def __init__(self, text: str, *, of_key: bool = False) -> None:
        super().__init__(text)
        self.of_key = of_key


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key. `decrypted` returns it in the form of PKCS #8 (DER), given the password of the key, and raises ValueError
    (PasswordError is one). `chain` has its certificates (DER), its own first; it may be empty."""

    alias: str
    decrypted: Callable[[str | None], bytes] = field(repr=False)
    chain: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class StoreEntries:
    """The keys in Java's order, which the choice among several depends on, and the trusted certificates.
    `unmarked` is how many other certificates there are: those that lead to an authority, or that Java does not trust."""

    keys: tuple[KeyEntry, ...] = ()
    trusted: tuple[bytes, ...] = ()
    unmarked: int = 0
