"""The cipher suites of `ssl.cipher.suites`: Java's names, and OpenSSL's.

Pure. Python's ssl restricts the suites of TLS 1.2 and not those of TLS 1.3: all of these are allowed, or none by the version.
Source: the IANA registry of TLS cipher suites, which Java's names are from; `openssl ciphers -stdname`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TLS_1_3_SUITES = frozenset(("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"))
_KEY_EXCHANGES = ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA", "DHE_DSS", "RSA")
# What is encrypted with, and which key exchanges have it.
_CIPHERS = {
    "AES_256_GCM_SHA384": ("AES256-GCM-SHA384", _KEY_EXCHANGES),
    "AES_128_GCM_SHA256": ("AES128-GCM-SHA256", _KEY_EXCHANGES),
    "CHACHA20_POLY1305_SHA256": ("CHACHA20-POLY1305", ("ECDHE_ECDSA", "ECDHE_RSA", "DHE_RSA")),
    "AES_256_CBC_SHA384": ("AES256-SHA384", ("ECDHE_ECDSA", "ECDHE_RSA")),
    "AES_256_CBC_SHA256": ("AES256-SHA256", ("DHE_RSA", "DHE_DSS", "RSA")),
    "AES_128_CBC_SHA256": ("AES128-SHA256", _KEY_EXCHANGES),
    "AES_256_CBC_SHA": ("AES256-SHA", _KEY_EXCHANGES),
    "AES_128_CBC_SHA": ("AES128-SHA", _KEY_EXCHANGES),
}
# OpenSSL's names by Java's, of TLS 1.2.
SUITES = {
    f"TLS_{exchange}_WITH_{cipher}": name if exchange == "RSA" else f"{exchange.replace('_', '-')}-{name}"
    for cipher, (name, exchanges) in _CIPHERS.items()
    for exchange in exchanges
}


@dataclass(frozen=True, slots=True)
class ChosenSuites:
    """`ciphers` are OpenSSL's names of suites for TLS 1.2; None: the default ones. The flags say which versions have one."""

    ciphers: str | None = None
    has_tls_1_2: bool = True
    has_tls_1_3: bool = True


def chosen_suites(names: Sequence[str]) -> ChosenSuites:
    """Return the meaning of `ssl.cipher.suites`. Raises ValueError for what is unknown, or cannot be restricted."""
    if not names:
        return ChosenSuites()
    unknown = [name for name in names if name not in SUITES and name not in TLS_1_3_SUITES]
    if unknown:
        raise ValueError(
            f"ssl.cipher.suites: {', '.join(unknown)} not supported; known are {', '.join(sorted(SUITES))}"
        )
    new = TLS_1_3_SUITES & set(names)
    if new and new != TLS_1_3_SUITES:
        raise ValueError(
            f"ssl.cipher.suites: the suites of TLS 1.3 cannot be restricted, and {', '.join(sorted(TLS_1_3_SUITES - new))} "
            "would be allowed, too; name all three, or none, which leaves TLS 1.2"
        )
    old = [SUITES[name] for name in names if name in SUITES]
    return ChosenSuites(":".join(old) if old else None, bool(old), bool(new))
