"""A process that sends old files to a client over loopback and does nothing else: what moving so many cold bytes costs a broker
that has no part in it.

Rules: Linux. The files' pages are dropped behind what was sent, and the bytes leave by `sendfile`, at a given rate.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.cold_files import ColdFiles

_PIECE_BYTES = 1 << 20
# A page that a socket still has cannot be dropped.
_ON_THEIR_WAY_BYTES = 4 << 20
_fork = multiprocessing.get_context("fork")


def _serve(listener: socket.socket, paths: Sequence[Path], megabytes_a_second: float, cores: set[int]) -> None:
    os.setsid()
    os.sched_setaffinity(0, cores)
    connection, _ = listener.accept()
    files = ColdFiles(paths)
    started, sent_bytes = time.monotonic(), 0
    while True:
        files.drop_all()
        before = 0
        for path in paths:
            descriptor = os.open(path, os.O_RDONLY)
            size_bytes, position = os.fstat(descriptor).st_size, 0
            while position < size_bytes:
                position += os.sendfile(connection.fileno(), descriptor, position, _PIECE_BYTES)
                files.drop_up_to(before + position - _ON_THEIR_WAY_BYTES)
                due = started + (sent_bytes + position) / 1e6 / megabytes_a_second
                time.sleep(max(due - time.monotonic(), 0))
            before += size_bytes
            sent_bytes += size_bytes
            os.close(descriptor)


def _receive(address: tuple[str, int], take_place: Callable[[], None], received: Any, flags: int) -> None:
    take_place()
    buffer = bytearray(_PIECE_BYTES)
    with socket.create_connection(address) as connection:
        while True:
            received.value += connection.recv_into(buffer, _PIECE_BYTES, flags)


@contextmanager
def file_server(
    files: Sequence[Path],
    megabytes_a_second: float,
    cores: set[int],
    take_place: Callable[[], None],
    *,
    is_thrown_away: bool = False,
) -> Iterator[Any]:
    """Yields the bytes received so far (`value`). `cores` are the server's; `take_place`: of the client's process among the
    machine's others; `is_thrown_away`: its kernel drops what comes, uncopied."""
    flags = socket.MSG_WAITALL | socket.MSG_TRUNC if is_thrown_away else 0
    received = _fork.Value("q", 0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        parts = (
            _fork.Process(target=_serve, args=(listener, files, megabytes_a_second, cores)),
            _fork.Process(target=_receive, args=(listener.getsockname(), take_place, received, flags)),
        )
        for part in parts:
            part.start()
        try:
            yield received
        finally:
            for part in parts:  # the server first: it must not miss its client
                part.kill()
                part.join()
