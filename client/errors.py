"""The errors of a client that are no errors of a request."""

from __future__ import annotations


class LoginRefused(RuntimeError):
    """The broker refuses this client, or the client does not trust the broker: its settings are wrong, or it has lost its
    rights. The text has no secret."""
