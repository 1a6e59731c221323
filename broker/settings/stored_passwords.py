"""Passwords among the stored settings of brokers: encrypted in the store, in clear in memory.

Rules: a password is stored for one broker only, never for all. One that cannot be decrypted (another secret encrypted it, or
there is none here) has no effect, and stays in the store as it is until it is changed or removed: another broker may be able
to. A stored text that is not changed is not encrypted again.
Invariant: no log line and no error contains a password, encrypted or not.
Source: Kafka DynamicBrokerConfig.toPersistentProps, fromPersistentProps, maybeReEncodePasswords; KIP-226.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from config.broker import BrokerSettings
from config.definition import Update
from config.errors import ConfigError
from config.layers import broker_definition
from security.password_encoder import (
    DEFAULT_KEY_FACTORY,
    EncoderSettings,
    EncoderSettingsError,
    PasswordEncoder,
    PasswordTextError,
)

if TYPE_CHECKING:
    from runtime.randomness import Randomness

logger = logging.getLogger(__name__)

_DYNAMIC_PASSWORDS = tuple(
    name for name, row in BrokerSettings.definitions.items() if row.is_sensitive and row.update is not Update.READ_ONLY
)


class PasswordsRefused(ConfigError):
    """A dynamic password was given that cannot be stored."""


def is_password(name: str) -> bool:
    """Return whether the value of a broker's setting is stored encrypted, whatever listener it is for."""
    row = broker_definition(name)
    return (row is not None and row.is_sensitive) or name.endswith(_DYNAMIC_PASSWORDS)


class StoredPasswords:
    """Decrypts what was stored, and encrypts what is to be. `encoder` is None without password.encoder.secret; `old_encoder`
    has the former secret while it is being changed."""

    def __init__(self, encoder: PasswordEncoder | None = None, old_encoder: PasswordEncoder | None = None) -> None:
        self._encoder = encoder
        self._old_encoder = old_encoder
        # What the stored texts are in clear, None for those that cannot be decrypted.
        self._known: dict[str, str | None] = {}

    @classmethod
    def of(cls, settings: BrokerSettings, randomness: Randomness) -> StoredPasswords:
        """Raises ConfigError when the settings name an algorithm that is not supported."""
        secret, old_secret = settings.password_encoder_secret, settings.password_encoder_old_secret
        if secret is None:
            return cls()
        try:
            how = EncoderSettings(
                settings.password_encoder_cipher_algorithm,
                settings.password_encoder_keyfactory_algorithm or DEFAULT_KEY_FACTORY,
                settings.password_encoder_key_length,
                settings.password_encoder_iterations,
            )
        except EncoderSettingsError as error:
            raise ConfigError(f"password.encoder.*: {error}") from error
        old = None if old_secret is None else PasswordEncoder(old_secret.value, how, randomness)
        return cls(PasswordEncoder(secret.value, how, randomness), old)

    def in_clear(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings as they were stored, with passwords in clear, and without those that cannot be decrypted."""
        found = {}
        for name, text in stored.items():
            clear = self._password(name, text) if is_password(name) else text
            if clear is not None:
                found[name] = clear
        return found

    def keep_only(self, *layers: Mapping[str, str]) -> None:
        """Forget what stored texts mean that none of `layers` has."""
        stored = {text for layer in layers for text in layer.values()}
        self._known = {text: clear for text, clear in self._known.items() if text in stored}

    def _password(self, name: str, text: str) -> str | None:
        if self._encoder is None:
            logger.warning("stored password ignored, there is no password.encoder.secret: setting=%s", name)
            return None
        if text not in self._known:
            try:
                self._known[text] = self._encoder.decode(text)
            except PasswordTextError as error:
                logger.warning("stored password ignored, it cannot be decrypted: setting=%s error=%s", name, str(error))
                self._known[text] = None
        return self._known[text]

    def changed_in_clear(self, given: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
        """Return settings that are to be stored in place of `stored`, with passwords in clear: in `given` those that change are
        in clear already."""
        kept = {name: text for name, text in given.items() if is_password(name) and text == stored.get(name)}
        changed = {name: text for name, text in given.items() if name not in kept}
        return changed | self.in_clear(kept)

    def to_store(self, given: Mapping[str, str], stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return the same settings with the passwords that change encrypted. Raises PasswordsRefused."""
        return {
            name: self._encoded(text, per_broker=per_broker) if is_password(name) and text != stored.get(name) else text
            for name, text in given.items()
        }

    def _encoded(self, password: str, *, per_broker: bool) -> str:
        if not per_broker:
            raise PasswordsRefused("Password config can be defined only at broker level")
        if self._encoder is None:
            raise PasswordsRefused("Password encoder secret not configured")
        text = self._encoder.encode(password)
        self._known[text] = password
        return text

    def renewed(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """Return settings in which the current secret encrypts what the former one encrypted; None when there is no such
        password."""
        if self._encoder is None or self._old_encoder is None:
            return None
        again = {}
        for name, text in stored.items():
            if is_password(name):
                try:
                    again[name] = self._encoded(self._old_encoder.decode(text), per_broker=True)
                except PasswordTextError:
                    continue  # the current secret may have encrypted it
        return {**stored, **again} if again else None
