"""Which process listens on a port of this machine.

A program that starts a server and then connects to the server's port has to know that the server answers there: where another
process has the port, the server ends, and the other one answers in its place. So a port that is taken is refused before the
start, and the server counts as started when its own process listens.

Rules: standard library only. Linux: sockets and their owners are read from /proc. The processes of other users are not seen,
but their ports count as taken.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator
from errno import EADDRINUSE
from pathlib import Path
from typing import Any

_LOOPBACKS = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
_LISTEN = "0A"
_POLL_S = 0.05


class PortTakenError(RuntimeError):
    """Another process listens on a port; the text says which."""


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port on both loopback addresses."""
    for family, host in _LOOPBACKS:
        try:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended do not matter
                probe.bind((host, port))
        except OSError as error:
            if error.errno == EADDRINUSE:
                return False  # other errors: there is no IPv6
    return True


def free_port() -> int:
    """Return a port of the loopback address that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def require_free(ports: Iterable[int]) -> None:
    """Raises PortTakenError for the first port that another process has."""
    for port in ports:
        if not is_free(port):
            raise PortTakenError(f"port {port} is taken by {names_of(listening_processes(port))}")


def listening_processes(port: int) -> list[int]:
    """Return the ids of the processes that listen on the port, on whatever address."""
    return [process_id for process_id in _process_ids() if listens(process_id, port)]


def listens(process_id: int, port: int) -> bool:
    """Return whether the process listens on the port, on whatever address."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    return bool(sockets) and any(target in sockets for target in _open_files(process_id))


def wait_until_listening(process: subprocess.Popen[Any], port: int, timeout_s: float) -> bool:
    """Wait until the process itself listens on the port; return False when it has ended, or the time is over."""
    deadline = time.monotonic() + timeout_s  # noqa: TID251  commands of their own, not the broker
    while not listens(process.pid, port):
        if process.poll() is not None or time.monotonic() > deadline:  # noqa: TID251
            return False
        time.sleep(_POLL_S)
    return True


def processes_with(path: Path) -> list[int]:
    """Return the ids of the processes that have a file open."""
    opened = str(path.resolve())
    return [process_id for process_id in _process_ids() if opened in _open_files(process_id)]


def names_of(process_ids: Iterable[int]) -> str:
    """Return processes in words, with their commands."""
    return " and ".join(f"process {one} ({_command(one)})" for one in process_ids) or "a process of another user"


def _command(process_id: int) -> str:
    try:
        return Path(f"/proc/{process_id}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "it has ended"


def _process_ids() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdecimal())


def _listening_inodes(port: int) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(f"/proc/self/net/{table}").read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue  # a machine without IPv6
        for row in rows:
            fields = row.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                yield fields[9]


def _open_files(process_id: int) -> Iterator[str]:
    """Yield the targets of a process's file descriptors, as far as this user may see them."""
    folder = f"/proc/{process_id}/fd"
    try:
        descriptors = os.listdir(folder)
    except OSError:
        return  # another user's, or it has just ended
    for descriptor in descriptors:
        try:
            yield os.readlink(f"{folder}/{descriptor}")
        except OSError:
            continue  # closed meanwhile
