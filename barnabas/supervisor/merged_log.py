"""The lines of several processes as one log: whole lines, each with its process, in the order in which they came.

    broker 1 | time=... level=info logger=broker.process msg="..."
    {"process":"broker 1","time":...}                                  with barnabas.log.format=json

Rules: lines become one form here, and `LogOutput` writes them to a descriptor. Writing never blocks: what cannot be written yet
waits in a bounded buffer, beyond which lines are dropped and counted; a descriptor that is broken gets nothing more. So nobody
who does not read the log can stop a broker, which waits for its own pipe otherwise. A line of more than LINE_MAX_BYTES is
continued on the next one.
Source: poll(2): a pipe, a terminal or a socket that is writable takes PIPE_BUF bytes without blocking; the descriptor itself
stays as it is, since the shell that has started the command may have it, too.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import select
from collections import deque

LINE_MAX_BYTES = 64 * 1024
WAITING_MAX_BYTES = 1024 * 1024
_PIECE_BYTES = select.PIPE_BUF
_TEMPORARY = (errno.ENOSPC, errno.EDQUOT, errno.EAGAIN, errno.EINTR)
_POLL_S = 0.05


class Lines:
    """Cuts the output of one process into lines, with its name in each. Pure."""

    def __init__(self, name: str | None, width: int, *, as_json: bool) -> None:
        """Lines begin with `name` in `width` characters; None: they stay as they are."""
        self._prefix = b"" if name is None else f"{name:<{width}} | ".encode()
        self._field = f'{{"process":{json.dumps(name)},'.encode()
        self._as_json = as_json
        self._rest = b""

    def feed(self, output: bytes) -> list[bytes]:
        """Return the lines that have become complete."""
        *whole, rest = (self._rest + output).split(b"\n")
        pieces = [piece for line in whole for piece in _cut(line)]
        *too_long, self._rest = _cut(rest)
        return [self._line(piece) for piece in (*pieces, *too_long)]

    def end(self) -> list[bytes]:
        """Return what came behind the last whole line."""
        rest, self._rest = self._rest, b""
        return [self._line(rest)] if rest else []

    def _line(self, line: bytes) -> bytes:
        if not self._as_json:
            return self._prefix + line + b"\n"
        if line.startswith(b"{") and line.endswith(b"}"):
            return self._field + line[1:] + b"\n"
        event = json.dumps(
            line.decode("utf-8", "backslashreplace"), ensure_ascii=False
        )  # not of a logger: an interpreter's
        return self._field + f'"event":{event}}}\n'.encode()


def _cut(line: bytes) -> list[bytes]:
    return [line[start : start + LINE_MAX_BYTES] for start in range(0, max(len(line), 1), LINE_MAX_BYTES)]


class LogOutput:
    """Writes lines to a descriptor from an event loop."""

    def __init__(self, descriptor: int, loop: asyncio.AbstractEventLoop) -> None:
        self._descriptor = descriptor
        self._loop = loop
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._dropped = 0
        self._is_broken = False
        self._handle: asyncio.TimerHandle | None = None
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)

    def add(self, line: bytes) -> None:
        """Write a line, now or when there is room for it."""
        if self._is_broken:
            return
        if self._waiting_bytes + len(line) > WAITING_MAX_BYTES:
            self._dropped += 1
            return
        self._append(line)
        if self._handle is None:
            self._write()

    def _append(self, line: bytes) -> None:
        self._waiting.append(line)
        self._waiting_bytes += len(line)

    def _write(self) -> None:
        """Write as much as does not block, and come back for the rest."""
        self._handle = None
        while self._waiting and self._may_write():
            if not self._write_piece():
                break
        if self._dropped and not self._waiting:
            self._append(f"log lines dropped, they were not read in time: lines={self._dropped}\n".encode())
            self._dropped = 0
        if self._waiting and not self._is_broken:
            self._handle = self._loop.call_later(_POLL_S, self._write)

    def _may_write(self) -> bool:
        return any(event & (select.POLLOUT | select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0))

    def _write_piece(self) -> bool:
        """Return whether to go on."""
        line = self._waiting[0]
        try:
            written = os.write(self._descriptor, line[:_PIECE_BYTES])
        except OSError as error:
            if error.errno in _TEMPORARY:
                return False
            self._is_broken = True  # its reader has ended
            self._waiting.clear()
            self._waiting_bytes = 0
            return False
        self._waiting_bytes -= written
        if written == len(line):
            self._waiting.popleft()
        else:
            self._waiting[0] = line[written:]
        return True

    def close(self) -> None:
        """Write what can be written without waiting; the rest is dropped."""
        self._write()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
