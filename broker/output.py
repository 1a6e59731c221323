"""What a command prints: its answer on standard output, what is wrong on standard error.

Rules: an output that takes no more, since `| head` has seen enough or a disk is full, is an `OutputError`. That is no
OSError, so that nobody who reads files meanwhile takes it for one of theirs. `answer` makes an exit code of it.
"""

from __future__ import annotations

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
    try:
        sys.stdout.flush()  # so that the two come in order where they go to one place
        print(text, file=sys.stderr)  # noqa: T201  a command's answer
    except OSError as error:
        raise OutputError from error


def answer(command: Callable[[], int]) -> int:
    """The exit code of `command`, when all that it says was written."""
    try:
        code = command()
        try:
            sys.stdout.flush()
        except OSError as error:
            raise OutputError from error
        return code
    except OutputError as error:
        # What is left would fail again when the interpreter flushes it at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        cause = error.__cause__
        if isinstance(cause, BrokenPipeError):
            return 0
        assert isinstance(cause, OSError)
        complain(f"barnabas: cannot print: {cause.strerror}")
        return _EXIT_FAILED
