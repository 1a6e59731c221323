"""What a command prints: its answer on standard output, what is wrong on standard error.

Rules: an output that takes no more, since `| head` has seen enough, a disk is full or it is closed, is an `OutputError`.
That is no OSError, so that nobody who reads files meanwhile takes it for one of theirs. `answer` makes an exit code of it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

_EXIT_FAILED = 1


class OutputError(Exception):
    """Its cause is the OSError."""


def say(text: str) -> None:
    """Raises OutputError."""
    try:
        print(text)  # noqa: T201  a command's answer
    except OSError as error:
        raise OutputError from error


def complain(text: str) -> None:
    """Raises OutputError."""
    if sys.stderr is None:  # closed; print would take the other one
        return
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # so that the two come in order where they go to one place
        print(text, file=sys.stderr)  # noqa: T201  a command's answer
    except OSError as error:
        raise OutputError from error


def answer(command: Callable[[], int]) -> int:
    """The exit code of `command`, when all that it says was written."""
    try:
        if sys.stdout is None:
            raise OutputError from OSError(errno.EBADF, os.strerror(errno.EBADF))
        code = command()
        try:
            sys.stdout.flush()
        except OSError as error:
            raise OutputError from error
        return code
    except OutputError as error:
        drop_unprinted()
        cause = error.__cause__
        if isinstance(cause, BrokenPipeError):
            return 0
        assert isinstance(cause, OSError)
        complain(f"barnabas: cannot print: {cause.strerror}")
        return _EXIT_FAILED


def drop_unprinted() -> None:
    """What standard output did not take would fail again when the interpreter flushes it at its end."""
    if sys.stdout is not None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
