"""Sets a thread's scheduling attributes, so that helper threads yield to the event loop and to other processes' threads.

A helper runs half a millisecond at a time, mostly in the kernel. By default, a thread that wakes up on its core waits for it,
even if another core is idle: a running thread keeps its core for a slice (1.4 ms on two cores), and a thread that had more
than its share waits for those that had less. So helpers get three settings, none of which needs a privilege: SCHED_BATCH, so
that they never preempt a running thread; the longest slice, because Linux lets threads with shorter slices (all others)
preempt those with longer ones; and a tenth of the usual share, so that the loop is entitled to the core again immediately. On
an idle core they still get all of it.

Rules: Linux; where the kernel is older (before 6.12 slices cannot be set), or a sandbox forbids a call, the thread keeps the
usual attributes.
Why not less than a tenth: a helper that does not get the core may hold the interpreter's lock, for which the loop waits.
Source: sched_setattr(2), sched(7), EEVDF; docs/decisions/020-helper-threads-give-way.md.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from contextlib import suppress

# Relative to a process of usual priority: a weight of 110, compared with 1024.
NICENESS = 10
LEAST_PRIORITY = 19
LONGEST_SLICE_NS = 100_000_000
# The call number of sched_setattr by 64-bit machine; the C library has no function for it.
_CALLS = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
# struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
_ATTRIBUTES = struct.Struct("=IIQiIQQQ")


def lower_priority() -> None:
    """Apply the three settings to the calling thread, once."""
    with suppress(OSError):
        niceness = min(os.getpriority(os.PRIO_PROCESS, 0) + NICENESS, LEAST_PRIORITY)
        if not _set_attributes(os.SCHED_BATCH, niceness, LONGEST_SLICE_NS):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            os.setpriority(os.PRIO_PROCESS, 0, niceness)


def _set_attributes(policy: int, niceness: int, slice_ns: int) -> bool:
    """Set scheduling attributes; returns False where the call is unknown or forbidden."""
    number = _CALLS.get(os.uname().machine) if sys.maxsize > 1 << 32 else None
    if number is None:
        return False
    try:
        call = ctypes.CDLL(None).syscall
    except (OSError, AttributeError):  # another C library
        return False
    call.argtypes, call.restype = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint), ctypes.c_long
    attributes = _ATTRIBUTES.pack(_ATTRIBUTES.size, policy, 0, niceness, 0, slice_ns, 0, 0)
    return bool(call(number, 0, attributes, 0) == 0)
