"""The errors of a client that are no errors of a request."""

from __future__ import annotations


class LoginRefused(RuntimeError):
    """This client is not let in, or does not trust the broker: its settings are wrong, or its rights are gone. The text has no
    secret."""
