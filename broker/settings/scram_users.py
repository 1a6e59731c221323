"""The SCRAM credentials of users, as the store has them now.

They are settings of a user's node, /config/users/<name>: the mechanism is the setting's name, beside the user's quotas.
Rules: no IO. Kept current by `DynamicSettings.on_entity_changed`. A stored credential that cannot be read is logged, without
its text, and counts as none: it must not stop a broker.
Source: KIP-84, KIP-554; Kafka CredentialProvider, UserConfigHandler, ScramCredentialUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from metadata.store.sanitized_names import desanitized, sanitized
from security.sasl.scram import MECHANISMS, ScramCredential, TokenLogin

logger = logging.getLogger(__name__)

USERS = "users"


def user_path(name: str) -> str:
    """Return the entity path of a user, as in `DynamicSettings.entities`."""
    return f"{USERS}/{sanitized(name)}"


def user_of_path(path: str) -> str | None:
    """Return the user whose entity path this is; None for any other entity."""
    entity_type, _, name = path.partition("/")
    if entity_type != USERS or not name or "/" in name:
        return None
    return desanitized(name)


class ScramUsers:
    """Implements `security.sasl.scram.ScramSource`. `token_login` looks delegation tokens up, by mechanism and token id."""

    def __init__(self) -> None:
        self._credentials: dict[tuple[str, str], ScramCredential] = {}
        self.token_login: Callable[[str, str], TokenLogin | None] | None = None

    def user(self, mechanism: str, name: str) -> ScramCredential | None:
        return self._credentials.get((mechanism, name))

    def token(self, mechanism: str, token_id: str) -> TokenLogin | None:
        return None if self.token_login is None else self.token_login(mechanism, token_id)

    def on_entity_changed(self, path: str, settings: Mapping[str, str]) -> None:
        """Take over the credentials among the settings of a user; of other entities there are none."""
        name = user_of_path(path)
        if name is None:
            return
        for mechanism in MECHANISMS:
            text = settings.get(mechanism)
            self._credentials.pop((mechanism, name), None)
            if text is None:
                continue
            try:
                self._credentials[mechanism, name] = ScramCredential.parse(text)
            except ValueError as error:
                logger.warning("stored credential ignored: path=%s setting=%s error=%s", path, mechanism, str(error))
