"""deploy/barnabas.service under a real systemd: an instance for a user, in a mount namespace of its own.

Left out of the unit is what such an instance cannot do in a container: other users, and file systems of its own (Protect...).
Needs root and systemd; systemd itself runs nowhere else than in the namespace, and ends with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.barnabas import REPOSITORY

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

SYSTEMD = "/lib/systemd/systemd"
NOT_HERE = (
    "User",
    "Group",
    "EnvironmentFile",
    "OOMScoreAdjust",
    "StateDirectory",
    "LogsDirectory",
    "Protect",
    "Private",
    "Exec",
)
SCRIPT = """
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system /run/user
chmod 700 /run/user
export XDG_RUNTIME_DIR=/run/user XDG_CONFIG_HOME="$1"
timeout 200 %(systemd)s --user --log-target=console 2>"$1/systemd.log" &
manager=$!
trap 'kill $manager; wait $manager || true' EXIT
control() { systemctl --user "$@" barnabas; }
value() { control show --value -p "$1"; }
until systemctl --user is-system-running 2>/dev/null | grep -qE "running|degraded"; do kill -0 $manager; sleep 0.1; done

control start
echo "started: $(value ActiveState) $(value StatusText)"
echo "limits: $(grep -E 'Seccomp:|NoNewPrivs|CapEff' /proc/$(value MainPID)/status | tr -s '[:space:]' ' ')"
control reload
echo "reloaded: $(value ActiveState)"
first=$(value MainPID)
kill -STOP "$first"
until [ "$(value NRestarts)" -ge 1 ] && [ "$(value ActiveState)" = active ]; do sleep 0.1; done
echo "hung: $(value StatusText), a new process: $([ "$first" != "$(value MainPID)" ] && echo yes)"
control stop
echo "stopped: $(value ActiveState) $(value Result) $(value ExecMainStatus)"
echo "num.partitions=0" >> "$1/server.properties"
control start || true
until [ "$(value ActiveState)" = failed ]; do sleep 0.1; done
echo "refused: $(value ExecMainStatus)"
"""


def unit(folder: Path) -> str:
    kept = [
        line
        for line in (REPOSITORY / "deploy" / "barnabas.service").read_text(encoding="utf-8").splitlines()
        if not line.startswith(NOT_HERE) or line.startswith("ExecReload")
    ]
    start = f"ExecStart={sys.executable} -m barnabas.cli start --no-banner {folder}/server.properties"
    text = "\n".join(kept).replace("[Service]", f"[Service]\n{start}\nWorkingDirectory={REPOSITORY}")
    return re.sub(r"WatchdogSec=.*", "WatchdogSec=10s", re.sub(r"RestartSec=.*", "RestartSec=100ms", text))


def test_systemd_starts_watches_and_stops_a_broker(tmp_path: Path) -> None:
    if os.getuid() != 0 or not Path(SYSTEMD).exists() or shutil.which("unshare") is None:
        pytest.skip("root, systemd and unshare are needed")
    (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path}/data\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    units = tmp_path / "systemd" / "user"
    units.mkdir(parents=True)
    (units / "barnabas.service").write_text(unit(tmp_path))
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", SCRIPT % {"systemd": SYSTEMD}, "bash", str(tmp_path)],
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "systemd.log").read_text()[-3000:]
    assert done.stdout.splitlines() == [
        "started: active serving",
        "limits: CapEff: 0000000000000000 NoNewPrivs: 1 Seccomp: 2 ",
        "reloaded: active",
        "hung: serving, a new process: yes",
        "stopped: inactive success 0",
        "refused: 2",
    ]
