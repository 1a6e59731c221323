"""Whom a quota is for, which quotas there are, and how the store's nodes name them. Pure.

A quota is for a user, a client id, both, or the address that a client connects from; each name may be the default of those that
have no quota of their own. In the store the settings of an entity are one node:

    /config/users/<user>    /config/clients/<client id>    /config/users/<user>/clients/<client id>    /config/ips/<address>

with `<default>` for the default. Other names are percent-encoded, so that a name that reads `<default>` is another one. The
node of a user has the SCRAM credentials, too: a change of quotas leaves other settings as they are.

Rules: no IO. A stored value that is no number counts as none: it must not stop a broker.
Source: KIP-13, KIP-55, KIP-124, KIP-546, KIP-599, KIP-612; Kafka Sanitizer, QuotaConfigs, ZkAdminManager.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

from config.java_values import java_double, java_integer
from metadata.store.sanitized_names import desanitized, sanitized

DEFAULT = ""
"""The name of a default: no user, client id or address is empty."""
_DEFAULT_NODE = "<default>"


class QuotaKind(enum.Enum):
    """A quota's key in the settings, and the type of its value."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"

    @property
    def integer_bits(self) -> int | None:
        """None: a double."""
        return _INTEGER_BITS.get(self)

    def parse(self, text: str) -> float:
        """Raises ValueError."""
        bits = self.integer_bits
        if bits is not None:
            return float(java_integer(text, bits))
        return _NO_NUMBERS[text] if text in _NO_NUMBERS else java_double(text)


_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGER_BITS = {QuotaKind.PRODUCE: 64, QuotaKind.FETCH: 64, QuotaKind.CONNECTION: 32}
CLIENT_KINDS = frozenset((QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST, QuotaKind.MUTATION))
ADDRESS_KINDS = frozenset((QuotaKind.CONNECTION,))
_KINDS = {kind.value: kind for kind in QuotaKind}


class QuotaEntity(NamedTuple):
    """None: the entity has no such part. DEFAULT: the default. An address stands alone."""

    user: str | None = None
    client_id: str | None = None
    address: str | None = None

    @property
    def kinds(self) -> frozenset[QuotaKind]:
        """The quotas that it may have."""
        return CLIENT_KINDS if self.address is None else ADDRESS_KINDS

    @property
    def path(self) -> str:
        """The path of its node below /config."""
        if self.address is not None:
            return f"ips/{_node(self.address)}"
        if self.user is None:
            assert self.client_id is not None
            return f"clients/{_node(self.client_id)}"
        user = f"users/{_node(self.user)}"
        return user if self.client_id is None else f"{user}/clients/{_node(self.client_id)}"

    @classmethod
    def of_path(cls, path: str) -> QuotaEntity | None:
        """Return the entity of a node's path below /config; None if no entity has such a node."""
        match path.split("/"):
            case ["users", user]:
                return cls(user=_name(user))
            case ["clients", client_id]:
                return cls(client_id=_name(client_id))
            case ["users", user, "clients", client_id]:
                return cls(user=_name(user), client_id=_name(client_id))
            case ["ips", address]:
                return cls(address=_name(address))
        return None


def _node(name: str) -> str:
    return sanitized(name) if name else _DEFAULT_NODE


def _name(node: str) -> str:
    return DEFAULT if node == _DEFAULT_NODE else desanitized(node)


def quota_kind(key: str) -> QuotaKind | None:
    """None: no quota has this key."""
    return _KINDS.get(key)


def quotas_in(settings: Mapping[str, str], kinds: frozenset[QuotaKind]) -> dict[QuotaKind, float]:
    """Return the quotas among the settings of an entity, without those whose value is no number."""
    found = {}
    for kind in QuotaKind:
        if kind in kinds and kind.value in settings:
            with suppress(ValueError):
                found[kind] = kind.parse(settings[kind.value])
    return found


def quota_text(kind: QuotaKind, value: float) -> str:
    """Return a quota as the store has it. Raises ValueError for a fraction where an integer is needed."""
    bits = kind.integer_bits
    if bits is None:
        return _double_text(value)
    nearest = _to_integer(value + _EPSILON, bits)
    if abs(nearest - value) > _EPSILON:
        raise ValueError(f"Configuration {kind.value} must be a {'LONG' if bits == 64 else 'INT'} value")
    return str(nearest)


_EPSILON = 1e-6


def _to_integer(value: float, bits: int) -> int:
    """As Java casts a double: to the nearest integer that there is; NaN is 0."""
    if math.isnan(value):
        return 0
    highest = (1 << (bits - 1)) - 1
    return (
        int(max(min(value, highest), -highest - 1))
        if math.isfinite(value)
        else (highest if value > 0 else -highest - 1)
    )


def _double_text(value: float) -> str:
    """As Java writes a double."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{exponent + len(digits) - 1}"
