"""Who a client is, once its connection is authenticated. Pure.

Invariant: two principals are the same when type and name are; how the client has shown who it is does not count.
Source: Kafka KafkaPrincipal, SecurityUtils.parseKafkaPrincipal.
"""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class Principal(NamedTuple):
    """Its text, as in ACLs and in `super.users`, is "User:alice"."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal of its text. Raises ValueError."""
        principal_type, separator, name = text.partition(":")
        if not separator:
            raise ValueError(f"expected a string in format principalType:principalName but got {text}")
        return cls(principal_type, name)


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""Of a connection that is not authenticated."""
