"""The errors of a client that are no errors of a request."""

from __future__ import annotations

from protocol.errors import KafkaError


class LoginRefused(RuntimeError):
    """The broker refuses this client, or the client does not trust the broker: its settings are wrong, or it has lost its
    rights. The text has no secret."""


class NotAuthenticated(ConnectionError):
    """A broker refuses the login of this client, so that there is no connection. The text has the broker's reason and no
    secret."""


class ClusterUnavailable(ConnectionError):
    """No usable answer came in time; the text says of what, and the last reason."""


class AbortableError(KafkaError):
    """The transaction cannot be committed: abort it, and begin another."""


class FatalError(KafkaError):
    """The producer or the member may do nothing any more: another has taken its place, or it has not the rights."""
