"""The phases of a connection's life, and the reasons why its next request does not start. Pure.

    OPENING -> FIRST_REQUEST -> SERVING -> FINISHING -> CLOSING -> CLOSED

A phase is left for a later one only; any may be skipped. TLS and SASL handshakes come between OPENING and FIRST_REQUEST.
Reasons to wait come and go while a connection is open, several at a time.
Source: Kafka ChannelState, KafkaChannel.ChannelMuteState.
"""

from __future__ import annotations

from enum import IntEnum


class ConnectionPhase(IntEnum):
    """In the order of a life, so that `phase < FINISHING` reads as a sentence."""

    OPENING = 0
    """Made for a stream that is not connected yet."""
    FIRST_REQUEST = 1
    """No request has come: whoever speaks another protocol is recognised by its first bytes."""
    SERVING = 2
    FINISHING = 3
    """Requests that have started get their responses; no other starts."""
    CLOSING = 4
    """What is ready is being sent; nothing is read."""
    CLOSED = 5


# Why the next request does not start. Bits of one number: `IntFlag` would cost a call for each test on the hot path.
WAITS_FOR_EARLIER = 1  # for a request before it, for the broker, or for memory that is free in a moment: tried again
WAITS_FOR_MEMORY = 2  # it is in the queue of a budget
WAITS_FOR_QUOTA = 4  # the client is muted
WAITS_FOR_READER = 8  # the peer does not take its responses
WAITS_LONG = WAITS_FOR_MEMORY | WAITS_FOR_QUOTA | WAITS_FOR_READER
