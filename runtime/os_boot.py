"""Which run of this machine it is: tells a process that died from a machine that lost its power.

Rules: the kernel makes the id anew at each boot; containers see their host's. None where the kernel has none.
"""

from __future__ import annotations

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def boot_id(path: str = BOOT_ID_FILE) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
