"""The phases of a connection's life, and the reasons why its next request does not start. Pure.

    OPENING -> AUTHENTICATING | FIRST_REQUEST -> SERVING -> SESSION_EXPIRED -> FINISHING -> CLOSING -> CLOSED

A phase is left for a later one only, but for AUTHENTICATING, to which a client returns that authenticates again; any may be
skipped. A TLS handshake is over before OPENING is.
Reasons to wait come and go while a connection is open, several at a time.
Source: Kafka ChannelState, KafkaChannel.ChannelMuteState.
"""

from __future__ import annotations

from enum import IntEnum


class ConnectionPhase(IntEnum):
    """In the order of a life, so that `phase < FINISHING` reads as a sentence."""

    OPENING = 0
    """Made for a stream that is not connected yet."""
    AUTHENTICATING = 1
    """All bytes belong to the SASL exchange (`broker.network.sasl.authentication`)."""
    FIRST_REQUEST = 2
    """No request has come: another protocol is recognised by its first bytes."""
    SERVING = 3
    SESSION_EXPIRED = 4
    """The client must authenticate again; any request but SaslHandshake closes the connection."""
    FINISHING = 5
    """Requests that have started get their responses; no other starts."""
    CLOSING = 6
    """What is ready is being sent; nothing is read."""
    CLOSED = 7


# Why the next request does not start. Bits of one number: `IntFlag` would cost a call for each test on the hot path.
WAITS_FOR_EARLIER = 1  # for a request before it, for the broker, or for memory that is free in a moment: tried again
WAITS_FOR_MEMORY = 2  # it is in the queue of a budget
WAITS_FOR_QUOTA = 4  # the client is muted
WAITS_FOR_READER = 8  # the peer does not take its responses
WAITS_FOR_DELAYED_CLOSE = 16  # the authentication has failed
WAITS_LONG = WAITS_FOR_MEMORY | WAITS_FOR_QUOTA | WAITS_FOR_READER | WAITS_FOR_DELAYED_CLOSE
