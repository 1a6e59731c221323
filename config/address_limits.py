"""`max.connections.per.ip.overrides`: limits of single addresses, "address:count,..."; IPv6 addresses contain colons, too.

Rules: pure. Host names are not resolved: their addresses may change.
Source: Kafka ConnectionQuotas; the colons of IPv6 as there, in brackets or not.
"""

from __future__ import annotations

import ipaddress
import re

from config.definition import INT_MAX
from config.errors import ConfigError

_COUNT = re.compile(r"[0-9]{1,10}")


def address_limits(name: str, text: str) -> dict[str, int]:
    """Parse the limits in setting `name`, by address in the network's notation. Raises ConfigError."""
    limits: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, separator, count = (part.strip() for part in item.rpartition(":"))
        if not separator or not _COUNT.fullmatch(count) or int(count) > INT_MAX:
            raise _refusal(name, f"{item!r} is not of the form address:count")
        try:
            address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        except ValueError as error:
            raise _refusal(name, str(error)) from error
        limits[str(address)] = int(count)
    return limits


def _refusal(name: str, reason: str) -> ConfigError:
    """Apache Kafka's words, but for the reason, which is the text of a Java exception there."""
    return ConfigError(f"Error parsing configuration property '{name}': {reason}")
