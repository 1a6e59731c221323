"""The limits of a connection and of its requests. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from protocol.schema import MAX_ELEMENTS

KiB = 1024
MiB = 1024 * KiB

# API key, version, correlation id, and the length of a client id or the broker id of ControlledShutdown v0.
SMALLEST_FRAME_BYTES = 10
MAX_CONTROL_ELEMENTS = 5_000_000


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`max_plain_bytes` bounds requests that hold neither records nor the cluster's partitions, `max_in_flight` those that
    overlap on one connection. `max_control_elements` is for what brokers tell each other about all partitions at once:
    200,000 of them count as some three million."""

    max_frame_bytes: int = 100 * MiB
    max_plain_bytes: int = 16 * MiB
    max_in_flight: int = 512
    max_elements: int = MAX_ELEMENTS
    max_control_elements: int = MAX_CONTROL_ELEMENTS

    def refusal(self, size: int, *, may_be_large: bool) -> str | None:
        """Why no request may have `size` bytes, or None."""
        if SMALLEST_FRAME_BYTES <= size <= (self.max_frame_bytes if may_be_large else self.max_plain_bytes):
            return None
        return f"a request of {size} bytes is malformed or too large"
