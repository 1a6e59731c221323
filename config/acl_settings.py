"""The settings that the authorizer reads itself: no rows of the broker's table, as in Kafka.

Rules: pure. Without an authorizer they are not read, and not checked. The value of `super.users` names users, separated by
semicolons, because names of certificates have commas.
Source: Kafka AclAuthorizer.configure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from config.errors import ConfigError
from config.java_values import java_trim

ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
"""The one value of `authorizer.class.name` besides none."""

AUTHORIZER_CLASS = "authorizer.class.name"
SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"
READ_BY_AUTHORIZER = frozenset((SUPER_USERS, ALLOW_EVERYONE))
_OWN_STORE = "authorizer.zookeeper."


@dataclass(frozen=True, slots=True)
class AclSettings:
    """`super_users` are texts like "User:alice"."""

    super_users: tuple[str, ...] = ()
    allows_without_acl: bool = False


def acl_settings(class_name: str, given: Mapping[str, str]) -> AclSettings | None:
    """Return the settings of the authorizer `class_name` among those given; None if there is none. Raises ConfigError for
    another class, and invalid values."""
    if not class_name:
        return None
    if class_name != ACL_AUTHORIZER:
        raise ConfigError(
            f"{AUTHORIZER_CLASS}={class_name}: this broker runs no Java; it must be empty, or {ACL_AUTHORIZER}, whose ACLs "
            "this broker enforces itself."
        )
    own_store = [name for name in given if name.startswith(_OWN_STORE)]
    if own_store:
        raise ConfigError(f"{own_store[0]}: ACLs are in the store of the broker, and in no other.")
    return AclSettings(super_users_of(given.get(SUPER_USERS, "")), _boolean(given.get(ALLOW_EVERYONE, "false")))


def super_users_of(text: str) -> tuple[str, ...]:
    """Return the users of the value of `super.users`. Raises ConfigError."""
    items = text.rstrip(";").split(";") if text.strip(";") else []  # as Java: without empty ones at the end
    users = tuple(java_trim(item) for item in items)
    for user in users:
        if ":" not in user:
            raise ConfigError(f"{SUPER_USERS}: expected a string in format principalType:principalName but got {user}")
    return users


def _boolean(text: str) -> bool:
    word = java_trim(text).lower()
    if word not in ("true", "false"):
        raise ConfigError(f"{ALLOW_EVERYONE}: expected true or false but got {text}")
    return word == "true"
