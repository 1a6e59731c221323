"""How often an address may fail to log in. Pure: who calls says the time.

Rules: after `limit` failures within `window_ms` an address waits until the oldest of them is that old. An IPv6 address counts
as its /64 network, of which one machine has all. Bounded: beyond `addresses` the address that failed the longest ago is
forgotten.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from typing import Final

LIMIT: Final = 10
WINDOW_MS: Final = 5 * 60_000
ADDRESSES: Final = 10_000
_NETWORK_BITS: Final = 64


class FailedLogins:
    def __init__(self, limit: int = LIMIT, window_ms: int = WINDOW_MS, addresses: int = ADDRESSES) -> None:
        self._limit = limit
        self._window_ms = window_ms
        self._addresses = addresses
        self._failures: dict[str, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._failures)

    def wait_ms(self, address: str, now_ms: int) -> int:
        """Return for how long no login is tried for this address, 0 for no time."""
        failures = self._failures.get(_counted(address))
        if failures is None or len(failures) < self._limit:
            return 0
        return max(0, failures[0] + self._window_ms - now_ms)

    def failed(self, address: str, now_ms: int) -> None:
        counted = _counted(address)
        failures = self._failures.pop(counted, None) or deque(maxlen=self._limit)
        failures.append(now_ms)
        self._failures[counted] = failures
        if len(self._failures) > self._addresses:
            del self._failures[next(iter(self._failures))]


def _counted(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return address
    mapped = parsed.ipv4_mapped
    return str(mapped or ipaddress.ip_network((int(parsed), _NETWORK_BITS), strict=False).network_address)
