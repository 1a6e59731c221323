"""A broker process that can be killed, stopped, frozen and started again on the same data and port."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.launch import command
from tests.oracle.ports import lasting_port

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 60.0
DEADLINE_S = 60.0
MiB = 1 << 20

SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "4"}


class NotStarted(AssertionError):
    """The broker ended, or was not ready in time; the text is its exit code and log."""


class BrokerProcess:
    """`start` returns when clients are served. The port stays the same over restarts. `open_files` is its limit of them."""

    def __init__(
        self,
        folder: Path,
        settings: dict[str, object] | None = None,
        *,
        data: Path | None = None,
        open_files: int | None = None,
    ) -> None:
        self.folder = folder
        self.data = data or folder / "data"
        self._limit = [] if open_files is None else ["sh", "-c", f'ulimit -n {open_files} && exec "$0" "$@"']
        self.port = lasting_port()
        self.settings = {
            "log.dirs": str(self.data),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            **SETTINGS,
            **{name: str(value) for name, value in (settings or {}).items()},
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.started_in_s = 0.0
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def log_path(self) -> Path:
        return self.folder / "broker.log"

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def launch(self) -> int:
        """Start the process without waiting; the pipe that tells when it is ready."""
        assert self.process is None, "the broker is running"
        arguments = ["start", "--no-banner", "--log-level", "INFO"]
        for name, value in self.settings.items():
            arguments += ["--override", f"{name}={value}"]
        ready, ready_end = os.pipe()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KAFKA_")}
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._limit, *command(*arguments, "--ready-fd", str(ready_end))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(ready_end,),
                env=environment,
            )
        os.close(ready_end)
        return ready

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        began = time.monotonic()
        ready = self.launch()
        try:
            readable, _, _ = select.select([ready], [], [], timeout_s)
            told = os.read(ready, 4096) if readable else b""
        finally:
            os.close(ready)
        self.started_in_s = time.monotonic() - began
        if not told:
            code = None if not readable else self.wait()
            self.kill()
            raise NotStarted(f"exit code {code}\n{self.log[-4000:]}")
        assert json.loads(told)["bootstrap_servers"] == self.address
        return self

    def refuses_to_start(self, timeout_s: float = START_TIMEOUT_S) -> tuple[int, str]:
        """The exit code of a start that must fail, and what was said."""
        began_at = len(self.log) if self.log_path.exists() else 0
        ready = self.launch()
        code = self.wait(timeout_s)
        os.close(ready)
        return code, self.log[began_at:]

    # --- the end of it ---

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        assert self.process is not None
        code = self.process.wait(timeout_s)
        self.process = None
        return code

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def kill(self) -> None:
        """kill -9. No effect when it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    # --- memory and files ---

    def descriptors(self) -> int:
        assert self.process is not None
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def rss_bytes(self) -> int:
        return self._status("VmRSS")

    def peak_rss_bytes(self) -> int:
        return self._status("VmHWM")

    def _status(self, name: str) -> int:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"{name} is not in /proc")


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)
