"""A server in a child process: started, watched while it becomes ready, and always gone at the end.

The child leads a process group of its own, so that whatever it starts ends with it. A watch holds the other end of a
pipe and kills that group when this process ends without stopping it, however it ends. The child's output goes to a file,
which survives when the server failed; a folder that was lent stays with its owner.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.listening import listens

LONG_TAIL = 100_000
"""Characters: what a server says between the reason for its end and the end."""


class StartError(RuntimeError):
    """A server ended, or was not ready in time; the message holds the end of its log."""


class Server:
    """Base of the servers under test. A subclass gives `prepare` and `is_ready`."""

    name = "server"
    port = 0
    """The port on which it listens, if it has one. What answers there must be this process, and no other that has the port."""
    start_timeout_s = 60.0
    stop_timeout_s = 60.0

    def __init__(self, folder: Path | None = None, environment: dict[str, str] | None = None) -> None:
        self._borrowed = folder is not None
        self.folder = folder or Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.log = self.folder / f"{self.name}.log"
        self.environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None

    def prepare(self) -> list[str]:
        """Choose ports, write configuration files; answers the command line."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        raise NotImplementedError

    def start(self, attempts: int = 3) -> None:
        """A port that was free may be taken a moment later, hence `attempts`."""
        assert not self.is_running, f"{self.name} runs: the second would be lost, and the first never ended"
        for attempt in range(attempts):
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    self.prepare(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env={**os.environ, **(self.environment or {})},
                )
            self._watch = watch_over(self.process.pid)
            if wait_until(lambda: self._is_ready_itself() or self.process.poll() is not None, self.start_timeout_s):  # type: ignore[union-attr]
                if self.process.poll() is None:
                    return
                self._end_watch()
                if attempt + 1 < attempts and "already in use" in self.log_tail(LONG_TAIL).lower():
                    continue
            tail = self.log_tail()
            self.kill()
            raise StartError(f"{self.name} did not become ready; log {self.log} ends with:\n{tail}")

    def _is_ready_itself(self) -> bool:
        assert self.process is not None
        return self.is_ready() and (not self.port or listens(self.process.pid, self.port))

    def log_tail(self, size: int = 4000) -> str:
        return self.log.read_text(errors="replace")[-size:] if self.log.exists() else ""

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def pause(self) -> None:
        """SIGSTOP: the process hangs, its connections stay."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM, and after a while SIGKILL; answers the exit code."""
        if self.process is None:
            return 0
        self.signal(signal.SIGTERM)
        self.resume()
        try:
            self.process.wait(self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        self._end_watch()
        return self.process.returncode

    def kill(self) -> None:
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait()
        self._end_watch()

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
            self._watch = None

    def remove(self) -> None:
        if not self._borrowed:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is None:
            self.remove()
        else:
            print(f"{self.name}: the log is kept in {self.log}", file=sys.stderr)


def watch_over(process_group: int) -> subprocess.Popen[bytes]:
    """A child that kills the group once this process has closed the pipe to it, which its end does at the latest."""
    script = 'cat > /dev/null; kill -9 -"$0" 2> /dev/null'
    return subprocess.Popen(["sh", "-c", script, str(process_group)], stdin=subprocess.PIPE, start_new_session=True)


def hear_interrupts() -> None:
    """In a process to be. What a shell starts in the background ignores Ctrl-C, and so would everything that the tests start
    there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_until(condition: Callable[[], bool], timeout_s: float, step_s: float = 0.05) -> bool:
    """Whether `condition` came true in time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(step_s)
    return condition()


def write_properties(path: Path, properties: dict[str, str]) -> Sequence[str]:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    return [str(path)]
