"""From which version of its response on a client keeps quiet for as long as a broker says (`throttle_time_ms`). Pure.

A broker that throttles answers at once, and reads nothing more from the connection for that time: a request would wait there.
Older versions are answered after that time.
Source: KIP-219; `AbstractResponse.shouldClientThrottle` of Apache Kafka 3.9.1, asked for each API and version.
"""

from __future__ import annotations

from typing import Final

from protocol.schema import Response

SINCE: Final[dict[int, int]] = {
    0: 6, 1: 8, 2: 3, 3: 6, 8: 4, 9: 4, 10: 2, 11: 3, 12: 2, 13: 2, 14: 2, 15: 2, 16: 2, 18: 2, 19: 3, 20: 2, 21: 1, 22: 1,
    24: 1, 25: 1, 26: 1, 28: 1, 29: 1, 30: 1, 31: 1, 32: 2, 33: 1, 34: 1, 35: 1, 37: 1, 38: 1, 39: 1, 40: 1, 41: 1, 42: 1,
    43: 0, 44: 0, 45: 0, 46: 0, 47: 0, 50: 0, 51: 0, 62: 0, 63: 0, 64: 0, 75: 0,
}  # fmt: skip
"""The first such version by API key. No client keeps quiet after a response of another API."""


def throttle_ms(response: Response, version: int) -> int:
    """Return for how long no request is to follow a response."""
    throttle_ms: int = getattr(response, "throttle_time_ms", 0)
    if throttle_ms <= 0:
        return 0
    since = SINCE.get(response.api_key)
    return throttle_ms if since is not None and version >= since else 0
