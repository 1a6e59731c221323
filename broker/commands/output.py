"""The output of commands: results on standard output, problems on standard error.

Rules: a failed write (`| head` has ended, the disk is full, the output is closed) raises `OutputError`, which is no OSError, so
that it is not mistaken for an error of a file that is read. `run_command` turns it into an exit code.
A terminal gets no character of a file, a record or a name that it would obey (`runtime.texts.visible`); a file or a pipe gets
results as they are.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable

from runtime.status_line import is_terminal
from runtime.texts import visible

_EXIT_FAILED = 1


class OutputError(Exception):
    """Writing to standard output or standard error failed; its cause is the OSError."""


def print_result(text: str) -> None:
    """Print a result. Raises OutputError."""
    try:
        print(visible(text, keeps_lines=True) if is_terminal(sys.stdout) else text)  # noqa: T201  a command's result
    except OSError as error:
        raise OutputError from error


def print_problem(text: str) -> None:
    """Print a problem. Raises OutputError."""
    if sys.stderr is None:  # closed; print would write to standard output
        return
    try:
        if sys.stdout is not None:
            sys.stdout.flush()  # so that results and problems are in order if both go to the same place
        print(visible(text, keeps_lines=True), file=sys.stderr)  # noqa: T201  a command's result
    except OSError as error:
        raise OutputError from error


def run_command(command: Callable[[], int]) -> int:
    """Run a command; return its exit code, or that of a failed output."""
    try:
        if sys.stdout is None:
            raise OutputError from OSError(errno.EBADF, os.strerror(errno.EBADF))
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name that the encoding does not have ends no command
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
        print_problem(f"barnabas: cannot print: {cause.strerror}")
        return _EXIT_FAILED


def results_have_their_own_place() -> bool:
    """Return whether standard output and standard error go to different files or terminals."""
    try:
        places = [os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr)]
    except (OSError, ValueError, AttributeError):  # one is closed, or no file
        return False
    return not os.path.samestat(*places)


def drop_unprinted() -> None:
    """Discard unwritten output: the interpreter would fail to flush it at its end."""
    if sys.stdout is not None:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
