"""How the parts of a PKCS12 store are encrypted with a password, and how its integrity is checked.

Encryption: PBES2 (PBKDF2 with AES or 3DES), which programs use today, and the older forms with the key derivation of PKCS12
(3DES, RC2, RC4). Integrity: HMAC with a key of the same derivation, or of PBKDF2 (PBMAC1).

Pure. Rules: a store may ask for at most `ITERATIONS_MAX` iterations of a derivation, as in Java, and for twice as many in all,
so that a wrong file ends in an error and not in hours of work. Passwords and keys are in no error.
Source: RFC 7292 appendices B and C, RFC 8018, RFC 9579; OpenJDK sun.security.pkcs12.PKCS12KeyStore (MAX_ITERATION_COUNT).
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from security.stores import ber, rc2
from security.stores.ber import object_name, object_text
from security.stores.entries import PasswordError

if TYPE_CHECKING:
    from security.stores.ber import Element

ITERATIONS_MAX: Final = 5_000_000
_KEY, _INITIAL, _MAC = 1, 2, 3  # what the derivation of PKCS12 makes
_DERIVED_BYTES_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class _Cipher:
    name: str
    key_bytes: int
    block_bytes: int = 8


_AES: Final = "AES"
_DES3: Final = "3DES"
_RC2: Final = "RC2"
_RC4: Final = "RC4"
_PKCS12: Final = {
    object_name("1.2.840.113549.1.12.1.1"): _Cipher(_RC4, 16, 0),
    object_name("1.2.840.113549.1.12.1.2"): _Cipher(_RC4, 5, 0),
    object_name("1.2.840.113549.1.12.1.3"): _Cipher(_DES3, 24),
    object_name("1.2.840.113549.1.12.1.4"): _Cipher(_DES3, 16),
    object_name("1.2.840.113549.1.12.1.5"): _Cipher(_RC2, 16),
    object_name("1.2.840.113549.1.12.1.6"): _Cipher(_RC2, 5),
}
_PBES2: Final = object_name("1.2.840.113549.1.5.13")
_PBKDF2: Final = object_name("1.2.840.113549.1.5.12")
_PBMAC1: Final = object_name("1.2.840.113549.1.5.14")
_PBES2_CIPHERS: Final = {
    object_name("2.16.840.1.101.3.4.1.2"): _Cipher(_AES, 16, 16),
    object_name("2.16.840.1.101.3.4.1.22"): _Cipher(_AES, 24, 16),
    object_name("2.16.840.1.101.3.4.1.42"): _Cipher(_AES, 32, 16),
    object_name("1.2.840.113549.3.7"): _Cipher(_DES3, 24),
}
_HMACS: Final = {
    object_name("1.2.840.113549.2.7"): "sha1",
    object_name("1.2.840.113549.2.8"): "sha224",
    object_name("1.2.840.113549.2.9"): "sha256",
    object_name("1.2.840.113549.2.10"): "sha384",
    object_name("1.2.840.113549.2.11"): "sha512",
}
_DIGESTS: Final = {
    object_name("1.3.14.3.2.26"): "sha1",
    object_name("2.16.840.1.101.3.4.2.4"): "sha224",
    object_name("2.16.840.1.101.3.4.2.1"): "sha256",
    object_name("2.16.840.1.101.3.4.2.2"): "sha384",
    object_name("2.16.840.1.101.3.4.2.3"): "sha512",
}


class Effort:
    """The iterations that the reading of one store may still take."""

    def __init__(self) -> None:
        self._left = 2 * ITERATIONS_MAX

    def spend(self, iterations: int) -> int:
        """Return the iterations. Raises ValueError for too many, and for none."""
        if not 0 < iterations <= min(ITERATIONS_MAX, self._left):
            raise ValueError(f"it asks for {iterations} iterations of a key derivation: more than are done for a store")
        self._left -= iterations
        return iterations


def decrypted(algorithm: Element, data: bytes, password: str, effort: Effort) -> bytes:
    """Return what was encrypted. Raises PasswordError for what looks like a wrong password, ValueError for an unknown algorithm
    and for damage."""
    kind, parameters = algorithm.parts(2, 2)
    if kind.content == _PBES2:
        return _decrypted_pbes2(parameters, data, password, effort)
    cipher = _PKCS12.get(kind.content)
    if cipher is None:
        raise ValueError(f"it is encrypted by an unknown algorithm ({object_text(kind.content)})")
    salt, count = parameters.parts(2, 2)
    for secret in _secrets(password):
        derive = partial(_pkcs12_key, "sha1", secret, salt.octets(), count.number(), effort)
        key, initial = derive(_KEY, cipher.key_bytes), derive(_INITIAL, cipher.block_bytes)
        try:
            return _plain(cipher, key, initial, data)
        except PasswordError:
            continue
    raise PasswordError("the password is wrong")


def _decrypted_pbes2(parameters: Element, data: bytes, password: str, effort: Effort) -> bytes:
    derivation, encryption = parameters.parts(2, 2)
    kind, initial = encryption.parts(2, 2)
    cipher = _PBES2_CIPHERS.get(kind.content)
    if cipher is None:
        raise ValueError(f"it is encrypted by an unknown algorithm ({object_text(kind.content)})")
    key = _pbkdf2_key(derivation, password, cipher.key_bytes, effort)
    return _plain(cipher, key, initial.octets(), data)


def _pbkdf2_key(derivation: Element, password: str, length: int | None, effort: Effort) -> bytes:
    """Return a key of PBKDF2, of the length that the parameters have if `length` is None. Raises ValueError."""
    kind, parameters = derivation.parts(2, 2)
    if kind.content != _PBKDF2:
        raise ValueError(f"the key derivation is unknown ({object_text(kind.content)})")
    salt, count, *rest = parameters.parts(2, 4)
    given = [each.number() for each in rest if each.tag == ber.INTEGER]
    functions = [each.parts(1, 2)[0].content for each in rest if each.tag == ber.SEQUENCE]
    hashed = _hmac(functions[0]) if functions else "sha1"
    wanted = length or (given[0] if given else 0)
    if not 0 < wanted <= _DERIVED_BYTES_MAX:
        raise ValueError("the length of a derived key is missing, or out of range")
    iterations = effort.spend(count.number())
    return hashlib.pbkdf2_hmac(hashed, password.encode("utf-8", "surrogatepass"), salt.octets(), iterations, wanted)


def _hmac(name: bytes) -> str:
    if name not in _HMACS:
        raise ValueError(f"a hash function is unknown ({object_text(name)})")
    return _HMACS[name]


def _plain(cipher: _Cipher, key: bytes, initial: bytes, data: bytes) -> bytes:
    """Raises PasswordError: the padding is none, as after decryption with another key."""
    if cipher.name == _RC4:
        return _by_library(cipher, key, initial, data)
    size = cipher.block_bytes
    if not data or len(data) % size or len(initial) != size:
        raise ValueError("encrypted content has a wrong length")
    if cipher.name == _RC2:
        padded = rc2.decrypted_cbc(key, initial, data, effective_bits=8 * len(key))
    else:
        padded = _by_library(cipher, key, initial, data)
    padding = padded[-1]
    if not 0 < padding <= size or padded[-padding:] != bytes([padding]) * padding:
        raise PasswordError("the password is wrong")
    return padded[:-padding]


def _by_library(cipher: _Cipher, key: bytes, initial: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.decrepit.ciphers.algorithms import ARC4, TripleDES  # noqa: PLC0415  many modules
    from cryptography.hazmat.primitives.ciphers import Cipher  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.algorithms import AES  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.modes import CBC  # noqa: PLC0415

    if cipher.name == _RC4:
        stream = Cipher(ARC4(key), None).decryptor()
        return stream.update(data) + stream.finalize()
    if cipher.name == _DES3:
        algorithm: AES | TripleDES = TripleDES(key if len(key) == 24 else key + key[:8])
    else:
        algorithm = AES(key)
    blocks = Cipher(algorithm, CBC(initial)).decryptor()
    return blocks.update(data) + blocks.finalize()


# --- integrity ---


def is_intact(mac: Element, content: bytes, password: str, effort: Effort) -> bool:
    """Return whether `content` has this MacData of PKCS12. Raises ValueError: it is not understood."""
    digest_info, salt, *count = mac.parts(2, 3)
    algorithm, digest = digest_info.parts(2, 2)
    kind, *parameters = algorithm.parts(1, 2)
    if kind.content == _PBMAC1 and parameters:
        derivation, scheme = parameters[0].parts(2, 2)
        hashed = _hmac(scheme.parts(1, 2)[0].content)
        keys = [_pbkdf2_key(derivation, password, None, effort)]
    else:
        if kind.content not in _DIGESTS:
            raise ValueError(f"a hash function is unknown ({object_text(kind.content)})")
        hashed = _DIGESTS[kind.content]
        iterations, length = count[0].number() if count else 1, hashlib.new(hashed).digest_size
        keys = [
            _pkcs12_key(hashed, secret, salt.octets(), iterations, effort, _MAC, length)
            for secret in _secrets(password)
        ]
    return any(hmac.compare_digest(hmac.digest(key, content, hashed), digest.octets()) for key in keys)


# --- the derivation of PKCS12 ---


def _secrets(password: str) -> tuple[bytes, ...]:
    """The octets of a password; for an empty one programs differ in whether its end counts."""
    ended = (password + "\0").encode("utf-16-be", "surrogatepass")
    return (ended,) if password else (ended, b"")


def _pkcs12_key(
    hashed: str, secret: bytes, salt: bytes, iterations: int, effort: Effort, purpose: int, length: int
) -> bytes:
    """Return `length` bytes, which may be none. Source: RFC 7292, appendix B.2. Raises ValueError."""
    make = getattr(hashlib, hashed)
    block = make().block_size
    diversifier = bytes([purpose]) * block
    inputs = _filled(salt, block) + _filled(secret, block)
    derived = b""
    while len(derived) < length:
        digest = make(diversifier + inputs).digest()
        for _ in range(effort.spend(iterations) - 1):
            digest = make(digest).digest()
        derived += digest
        addend = int.from_bytes(_filled(digest, block)[:block]) + 1
        inputs = b"".join(
            ((int.from_bytes(inputs[start : start + block]) + addend) % (1 << 8 * block)).to_bytes(block)
            for start in range(0, len(inputs), block)
        )
    return derived[:length]


def _filled(text: bytes, block: int) -> bytes:
    """`text`, repeated to a multiple of `block` bytes."""
    length = -(-len(text) // block) * block
    return (text * (length // len(text) + 1))[:length] if text else b""
