"""Describes errors in words, for log lines and messages.

Rules: pure. An error of the operating system is described in the system's words, with the file concerned, not by its repr.
"""

from __future__ import annotations


def reason_of(error: BaseException) -> str:
    """Describe the cause of `error`: "No such file or directory: /data/x"; for errors that are not the system's, their name and
    text."""
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if error.strerror is None:
        return str(error) or ("timed out" if isinstance(error, TimeoutError) else type(error).__name__)
    files = [str(file) for file in (error.filename, error.filename2) if file is not None]
    return ": ".join((error.strerror, *files))
