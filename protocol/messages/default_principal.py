"""The principal that an Envelope carries, in the form of Kafka's default principal builder (KIP-590)."""

from __future__ import annotations

from protocol.schema import bool_, string
from protocol.stored.stored import Stored


class DefaultPrincipalData(Stored, versions="0", flexible="0+"):
    type:                str  = string()
    name:                str  = string()
    token_authenticated: bool = bool_()
