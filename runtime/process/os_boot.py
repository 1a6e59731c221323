"""Reads the id of this boot of the machine, which distinguishes a crash of the process from a power loss.

Rules: the kernel makes a new id at each boot; containers see that of their host. None where the kernel has none.
"""

from __future__ import annotations

BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def boot_id(path: str = BOOT_ID_FILE) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip() or None
    except (OSError, UnicodeDecodeError):
        return None
