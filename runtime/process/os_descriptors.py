"""Opens the standard descriptors that the parent process has closed; says whether the process has a terminal.

The kernel gives the lowest free number, so that the event loop, a lock or a client's socket would become standard output; and
libuv, which knows that no socket has such a number, ends the process when it is to close one (`uv__close`).
Rules: before anything else is opened.
Source: POSIX open(2); Linux tty(4).
"""

from __future__ import annotations

import os

STANDARD_DESCRIPTORS = (0, 1, 2)


def fill_standard_descriptors() -> None:
    """Open /dev/null for each closed standard descriptor."""
    for number in STANDARD_DESCRIPTORS:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def has_terminal() -> bool:
    """Return whether a terminal controls this process: when it is closed, the process gets a SIGHUP."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
