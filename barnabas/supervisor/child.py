"""A forked process of the command: its descriptors, how it begins, and what it reports.

Rules: the fork is made between two turns of the supervisor's event loop, by its only thread. So no lock is held, no coroutine
is under way, and what a fork copies is what was imported: each process makes its own event loop (uvloop, which is imported
and not used before), threads, sockets, files and connections, and OpenSSL and `random` notice a fork themselves. That is why
no process between is needed that only forks. Signals are blocked around the fork, so that none is handled in the child as the
supervisor does; the child closes every descriptor that is not its own, and has the signals as a command begins with them. The
collector leaves alone what the child has inherited (`gc.freeze`): it would close descriptors of the same numbers, and write
to memory that is shared. A child is in a session of its own: Ctrl-C is for the supervisor alone.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from runtime.process.os_child import close_all_but, end_with_parent, set_process_name

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_MANAGER_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_FAILED = 1


@dataclass(frozen=True, slots=True)
class Inherited:
    """The child's ends: it writes one line of JSON to `ready_fd` when it serves, and reads from `owner_fd`, -1 for none, what
    the owner wants (`broker.owner_socket`)."""

    ready_fd: int
    owner_fd: int


@dataclass
class ForkedChild:
    """The supervisor's ends. `output` has what the process writes to standard output and standard error."""

    process_id: int
    output: int
    ready: int
    owner: socket.socket | None
    told: bytearray = field(default_factory=bytearray)
    """What came from `ready` so far."""


def fork(name: str, run: Callable[[Inherited], int], *, with_owner: bool) -> ForkedChild:
    """Start a process that is called `name` and ends with the exit code that `run` returns. Raises OSError."""
    output, output_end = os.pipe()
    ready, ready_end = os.pipe()
    owner, owner_end = socket.socketpair() if with_owner else (None, None)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()  # or the child would write it once more
    parent_id, blocked = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, _HANDLED)
    try:
        process_id = os.fork()
        if not process_id:
            inherited = Inherited(ready_end, -1 if owner_end is None else owner_end.fileno())
            _be_child(name, run, inherited, output_end, parent_id)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(output_end)
        os.close(ready_end)
        if owner_end is not None:
            owner_end.close()
    for descriptor in (output, ready):
        os.set_blocking(descriptor, False)
    if owner is not None:
        owner.setblocking(False)
    return ForkedChild(process_id, output, ready, owner)


def _be_child(
    name: str, run: Callable[[Inherited], int], inherited: Inherited, output_end: int, parent_id: int
) -> NoReturn:
    """What the forked process does: it never returns to the code of the supervisor."""
    code = _FAILED
    try:
        gc.freeze()
        gc.enable()
        signal.set_wakeup_fd(-1)
        for number in _HANDLED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        end_with_parent(parent_id)
        set_process_name(name)
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for standard, descriptor in enumerate((nothing, output_end, output_end)):
            os.dup2(descriptor, standard)
        close_all_but({0, 1, 2, inherited.ready_fd, inherited.owner_fd})
        for variable in _MANAGER_VARIABLES:
            os.environ.pop(variable, None)  # the manager hears from the supervisor
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HANDLED)
        code = run(inherited)
    except BaseException:  # noqa: BLE001 - this process ends here, and says why
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
