"""Encryption of passwords among dynamic settings, in the text that Apache Kafka stores. Pure.

The text is a list of pairs `name:value`: key derivation, cipher, key length, salt, iterations, initialization vector, the
encrypted password in base64, and the password's length. It says all that decoding needs but the secret, so that a text is
decoded whatever the settings are now.

Rules: ciphers are AES in the modes CBC (with padding), GCM and CTR; key derivations are PBKDF2 with an HMAC. A text
may come from any client that may write to the store: each of its numbers has a limit.
Invariant: no error of this module contains a secret, a password or an encrypted password.
Source: Kafka PasswordEncoder, EncryptingPasswordEncoder, IvParamsEncoder, GcmParamsEncoder.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import Cipher
    from cryptography.hazmat.primitives.ciphers.modes import CBC, CTR

    from runtime.randomness import Randomness

DEFAULT_CIPHER: Final = "AES/CBC/PKCS5Padding"
DEFAULT_KEY_FACTORY: Final = "PBKDF2WithHmacSHA512"
DEFAULT_KEY_LENGTH_BITS: Final = 128
DEFAULT_ITERATIONS: Final = 4096

KEY_FACTORIES: Final = {
    f"PBKDF2WithHmac{name}": digest
    for name, digest in (
        *(("SHA1", "sha1"), ("SHA224", "sha224"), ("SHA256", "sha256"), ("SHA384", "sha384"), ("SHA512", "sha512")),
        *(("SHA512/224", "sha512_224"), ("SHA512/256", "sha512_256")),
    )
}
CIPHERS: Final = (DEFAULT_CIPHER, "AES/GCM/NoPadding", "AES/CTR/NoPadding")
KEY_LENGTHS_BITS: Final = (128, 192, 256)

SALT_BYTES: Final = 256
BLOCK_BYTES: Final = 16
GCM_VECTOR_BYTES: Final = 12
TAG_BITS: Final = 128
TAGS_BITS: Final = (96, 104, 112, 120, 128)
# Of texts that others wrote: deriving a key with so many takes half a second.
ITERATIONS_MAX: Final = 1_000_000
# Longer than a chain of certificates in PEM form.
TEXT_MAX: Final = 4 * 1024 * 1024

# In the order in which Apache Kafka's map of them is walked.
_NAMES: Final = (
    *("initializationVector", "keyLength", "salt", "keyFactoryAlgorithm", "cipherAlgorithm"),
    *("authenticationTagLength", "iterations", "passwordLength", "encryptedPassword"),
)


class PasswordTextError(ValueError):
    """A stored text is not an encrypted password, or another secret encrypted it."""


class EncoderSettingsError(ValueError):
    """The settings of an encoder name an algorithm that is not supported."""


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How passwords are encrypted from now on. Stored ones say how they were. Raises EncoderSettingsError."""

    cipher: str = DEFAULT_CIPHER
    key_factory: str = DEFAULT_KEY_FACTORY
    key_length_bits: int = DEFAULT_KEY_LENGTH_BITS
    iterations: int = DEFAULT_ITERATIONS

    def __post_init__(self) -> None:
        _check_algorithms(self.cipher, self.key_factory, self.key_length_bits)


class PasswordEncoder:
    """Encrypts and decrypts with one secret. It may be kept for the life of a broker."""

    def __init__(self, secret: str, settings: EncoderSettings, randomness: Randomness) -> None:
        self._secret = secret.encode()
        self._settings = settings
        self._randomness = randomness

    def encode(self, password: str) -> str:
        """Return the text to store. Each call returns another one."""
        settings = self._settings
        salt = self._randomness.randbytes(SALT_BYTES)
        is_gcm = _mode_of(settings.cipher) == "GCM"
        vector = self._randomness.randbytes(GCM_VECTOR_BYTES if is_gcm else BLOCK_BYTES)
        key = self._key(settings.key_factory, salt, settings.iterations, settings.key_length_bits)
        values = {
            "encryptedPassword": _base64(_encrypt(settings.cipher, key, vector, password.encode())),
            "initializationVector": _base64(vector),
            "passwordLength": str(_java_length(password)),
            "keyFactoryAlgorithm": settings.key_factory,
            "salt": _base64(salt),
            "cipherAlgorithm": settings.cipher,
            "keyLength": str(settings.key_length_bits),
            "iterations": str(settings.iterations),
        }
        if is_gcm:
            values["authenticationTagLength"] = str(TAG_BITS)
        return ",".join(f"{name}:{values[name]}" for name in _NAMES if name in values)

    def decode(self, text: str) -> str:
        """Return the password of a stored text. Raises PasswordTextError."""
        values = _values(text)
        cipher = _required(values, "cipherAlgorithm")
        key_factory = values.get("keyFactoryAlgorithm", DEFAULT_KEY_FACTORY)
        key_length_bits = _number(values, "keyLength", max(KEY_LENGTHS_BITS))
        try:
            _check_algorithms(cipher, key_factory, key_length_bits)
        except EncoderSettingsError as error:
            raise PasswordTextError(str(error)) from error
        iterations = _number(values, "iterations", ITERATIONS_MAX)
        key = self._key(key_factory, _bytes(values, "salt"), iterations, key_length_bits)
        tag_bits = _number(values, "authenticationTagLength", TAG_BITS) if _mode_of(cipher) == "GCM" else TAG_BITS
        if tag_bits not in TAGS_BITS:
            raise PasswordTextError(f"authenticationTagLength is {tag_bits}")
        vector, encrypted = _bytes(values, "initializationVector"), _bytes(values, "encryptedPassword")
        try:
            password = _decrypt(cipher, key, vector, tag_bits // 8, encrypted).decode()
        except ValueError as error:
            raise PasswordTextError("the password could not be decrypted: another secret encrypted it") from error
        if _java_length(password) != _number(values, "passwordLength", TEXT_MAX):
            raise PasswordTextError(
                "the password has another length than is stored with it: another secret encrypted it"
            )
        return password

    def _key(self, key_factory: str, salt: bytes, iterations: int, key_length_bits: int) -> bytes:
        return hashlib.pbkdf2_hmac(KEY_FACTORIES[key_factory], self._secret, salt, iterations, key_length_bits // 8)


def _check_algorithms(cipher: str, key_factory: str, key_length_bits: int) -> None:
    """Raises EncoderSettingsError."""
    if cipher not in CIPHERS:
        raise EncoderSettingsError(f"the cipher {cipher[:80]!r} is not supported, only {', '.join(CIPHERS)}")
    if key_factory not in KEY_FACTORIES:
        raise EncoderSettingsError(
            f"the key derivation {key_factory[:80]!r} is not supported, only {', '.join(KEY_FACTORIES)}"
        )
    if key_length_bits not in KEY_LENGTHS_BITS:
        lengths = ", ".join(map(str, KEY_LENGTHS_BITS))
        raise EncoderSettingsError(f"AES has no keys of {key_length_bits} bits, only of {lengths}")


# --- the text ---


def _values(text: str) -> Mapping[str, str]:
    if len(text) > TEXT_MAX:
        raise PasswordTextError("it is too long")
    values = {}
    for pair in text.strip().split(","):
        name, separator, value = pair.strip().rpartition(":")
        if not separator:
            raise PasswordTextError("it is no list of pairs name:value")
        values[name] = value
    return values


def _required(values: Mapping[str, str], name: str) -> str:
    if name not in values:
        raise PasswordTextError(f"{name} is missing")
    return values[name]


def _number(values: Mapping[str, str], name: str, largest: int) -> int:
    text = _required(values, name)
    if not text.isascii() or not text.isdigit() or len(text) > len(str(largest)) or int(text) > largest:
        raise PasswordTextError(f"{name} is no number up to {largest}")
    if int(text) < 1 and name != "passwordLength":
        raise PasswordTextError(f"{name} is {text}")
    return int(text)


def _bytes(values: Mapping[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(_required(values, name), validate=True)
    except (binascii.Error, ValueError) as error:
        if isinstance(error, PasswordTextError):
            raise
        raise PasswordTextError(f"{name} is no base64") from None


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _java_length(text: str) -> int:
    """Return the length in UTF-16 units, as Java counts."""
    return len(text.encode("utf-16-be", "surrogatepass")) // 2


# --- AES ---


def _mode_of(cipher: str) -> str:
    return cipher.split("/")[1]


def _encrypt(cipher: str, key: bytes, vector: bytes, data: bytes) -> bytes:
    if _mode_of(cipher) == "GCM":
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - only who has passwords loads it

        return AESGCM(key).encrypt(vector, data, None)
    if _mode_of(cipher) == "CBC":
        padding = BLOCK_BYTES - len(data) % BLOCK_BYTES
        data += bytes([padding]) * padding
    encryptor = _aes(cipher, key, vector).encryptor()
    return encryptor.update(data) + encryptor.finalize()


def _decrypt(cipher: str, key: bytes, vector: bytes, tag_bytes: int, data: bytes) -> bytes:
    """Raises ValueError when it does not fit the key."""
    if _mode_of(cipher) == "GCM":
        return _decrypt_gcm(key, vector, tag_bytes, data)
    decryptor = _aes(cipher, key, vector).decryptor()
    decrypted = decryptor.update(data) + decryptor.finalize()
    if _mode_of(cipher) != "CBC":
        return decrypted
    padding = decrypted[-1] if decrypted else 0
    if not 1 <= padding <= BLOCK_BYTES or decrypted[-padding:] != bytes([padding]) * padding:
        raise ValueError("the padding is wrong")
    return decrypted[:-padding]


def _decrypt_gcm(key: bytes, vector: bytes, tag_bytes: int, data: bytes) -> bytes:
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

    if len(data) < tag_bytes:
        raise ValueError("the tag is missing")
    mode = modes.GCM(vector, data[-tag_bytes:], min_tag_length=tag_bytes)
    decryptor = Cipher(algorithms.AES(key), mode).decryptor()
    try:
        return decryptor.update(data[:-tag_bytes]) + decryptor.finalize()
    except InvalidTag as error:
        raise ValueError("the tag is wrong") from error


def _aes(cipher: str, key: bytes, vector: bytes) -> Cipher[CBC | CTR]:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes  # noqa: PLC0415

    mode: CBC | CTR = modes.CBC(vector) if _mode_of(cipher) == "CBC" else modes.CTR(vector)
    return Cipher(algorithms.AES(key), mode)
