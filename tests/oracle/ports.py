"""Ports that a server keeps over its restarts.

A port that the kernel chose may belong to an outgoing connection the moment its listener is gone. So these lie below the
range of outgoing connections, and a file lock in the temporary folder keeps test runs apart.
"""

from __future__ import annotations

import fcntl
import random
import socket
import tempfile
from pathlib import Path
from typing import IO

FIRST, END = 15_000, 32_000
ATTEMPTS = 1000

_held: dict[int, IO[bytes]] = {}


def lasting_port(host: str = "127.0.0.1", count: int = 1) -> int:
    """A port that stays this process's to listen on until it ends: the first of `count` in a row."""
    folder = Path(tempfile.gettempdir()) / "barnabas-test-ports"
    folder.mkdir(exist_ok=True)
    choice = random.SystemRandom()
    for _ in range(ATTEMPTS):
        first = choice.randrange(FIRST, END - count + 1)
        if all(_take(folder / str(port), port) and _is_free(host, port) for port in range(first, first + count)):
            return first
    raise OSError("no port is free")


def _take(path: Path, port: int) -> bool:
    if port in _held:
        return False
    file = path.open("wb")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _held[port] = file
    return True


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
