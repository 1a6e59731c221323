"""The log of the client library for records, of which only the error that ends a client is kept: the library may lose it.

Rules: commands tell errors themselves, so that nothing of the log is printed.
"""

from __future__ import annotations

import logging

_FATAL = "Fatal error: "


class _FatalErrors(logging.Handler):
    """Keeps the text of the last one."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        _, found, text = record.getMessage().partition(_FATAL)
        if found:
            self.text = text


FATAL_ERRORS = _FatalErrors()
CLIENT_LOG = logging.getLogger("tools.librdkafka")
CLIENT_LOG.addHandler(FATAL_ERRORS)
CLIENT_LOG.propagate = False
