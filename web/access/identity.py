"""Who a request comes from: a user of the cluster with a login, or nobody in particular. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from client.settings.values import LoginSettings


@dataclass(frozen=True, slots=True)
class Identity:
    """`login` is how brokers are told who it is, None where they do not ask; its secret is in no repr. `name` is what people
    know the user by."""

    login: LoginSettings | None
    name: str


ANONYMOUS: Final = Identity(None, "ANONYMOUS")
"""Who has not logged in, by Kafka's name."""
