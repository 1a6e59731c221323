"""A broker as a service: what its manager hears from start to end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

from barnabas.launch import command

PATIENCE_S = 60.0


def hears(manager: socket.socket, name: str, seen: list[str]) -> None:
    """Read notices until one of `name` has come."""
    while not any(line.startswith(f"{name}=") for line in seen):
        seen += manager.recv(4096).decode().split("\n")


def test_a_broker_tells_its_service_manager_what_it_does(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        line = command("start", "--override", f"log.dirs={tmp_path}/data")
        line += ["--override", "listeners=PLAINTEXT://127.0.0.1:0", "--no-banner"]
        process = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            starting: list[str] = []
            hears(manager, "READY", starting)
            assert {"STATUS=not started", "STATUS=serving", "READY=1"} <= set(starting)
            assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in starting)
            running: list[str] = []
            hears(manager, "WATCHDOG", running)
            assert set(running) == {"WATCHDOG=1"}
            process.send_signal(signal.SIGTERM)
            stopping: list[str] = []
            hears(manager, "STOPPING", stopping)
            _, log = process.communicate(timeout=PATIENCE_S)
            assert process.returncode == 0
            assert "not told" not in log
        finally:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()


def test_a_web_process_tells_it_too(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        line = command("web", "--port", "0", "--bootstrap-server", "127.0.0.1:1")
        with subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                told: list[str] = []
                hears(manager, "READY", told)
                hears(manager, "WATCHDOG", told)
                process.send_signal(signal.SIGTERM)
                hears(manager, "STOPPING", told)
                assert process.wait(PATIENCE_S) == 0
                assert {"STATUS=serving", "STATUS=stopping"} <= set(told)
            finally:
                process.kill()


def test_a_relay_that_waits_for_its_cluster_is_stopped_at_once(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        line = command("relay", "--bootstrap-server", "127.0.0.1:1")
        with subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                told: list[str] = []
                hears(manager, "WATCHDOG", told)
                process.send_signal(signal.SIGTERM)
                hears(manager, "STOPPING", told)
                assert process.wait(PATIENCE_S) == 0
                assert {"STATUS=starting", "STATUS=stopping"} <= set(told)
                assert "READY=1" not in told
            finally:
                process.kill()


def test_a_start_that_is_refused_never_says_ready(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.setblocking(False)
        environment = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        line = command("start", "--override", f"log.dirs={tmp_path}/file/data", "--no-banner")
        done = subprocess.run(
            [*line, "--override", "listeners=PLAINTEXT://127.0.0.1:0"],
            env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert done.returncode == 1
        told = b""
        while True:
            try:
                told += manager.recv(4096) + b"\n"
            except BlockingIOError:
                break
    assert b"READY=1" not in told
    assert b"STOPPING=1" in told
