"""Attributes of a process that another one has forked and looks after: it ends with its parent, and has a name of its own.

Rules: Linux. `end_with_parent` follows the thread that forked: a parent of one thread forks such children.
Source: prctl(2), PR_SET_PDEATHSIG and PR_SET_NAME.
"""

from __future__ import annotations

import ctypes
import os
import signal

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_NAME_MAX_BYTES = 15


def end_with_parent(parent_id: int) -> None:
    """Have the kernel kill this process when its parent, which is `parent_id`, ends; end now if it has ended already. Raises
    OSError."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_id:
        os._exit(128 + signal.SIGKILL)


def set_process_name(name: str) -> None:
    """Set the name that `ps` and /proc show; the kernel keeps 15 bytes. Raises OSError."""
    _prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:_NAME_MAX_BYTES]))


def _prctl(option: int, argument: object) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def close_all_but(kept: set[int]) -> None:
    """Close every descriptor of this process that is not in `kept`."""
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        if descriptor not in kept:
            try:
                os.close(descriptor)
            except OSError:
                continue  # the one that listed the folder
