"""The package as a stranger installs it: pip, pipx and uvx, from the wheel and from a clone, with each Python at hand.

What is installed runs without a clone at hand, in a folder whose files have the names of the server's packages. Dependencies,
pipx and uv come from the package index. A Python is at hand if its name is on PATH, or a version manager has it (`~/.pyenv`).
"""

from __future__ import annotations

import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from barnabas.listening import free_port
from barnabas.supported import NEWEST, OLDEST
from tests.barnabas.installing import build_wheel, call
from tests.barnabas.wire import topics_of
from tests.oracle.process import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1200)]

THEIRS = ("barnabas", "broker", "client", "config", "runtime", "storage", "tools", "click", "uvloop")
VERSIONS = [f"3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
PATIENCE_S = 60.0
Installed = tuple[list[str | Path], Path | None]
"""The words before a command's arguments, and the folder of its man pages, if it has one that lasts."""


def interpreter(version: str) -> str | None:
    """Return a Python of this version, if there is one that makes virtual environments."""
    managed = sorted(Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}"))
    check = f"import ensurepip, sys, venv; assert '{version}' == '%d.%d' % sys.version_info[:2]"
    for each in [sys.executable, f"python{version}", *map(str, managed)]:
        found = shutil.which(each)
        if found is not None and subprocess.run([found, "-c", check], capture_output=True, check=False).returncode == 0:
            return found
    return None


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel; beside it is `source`, a clone without what was built."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs `pipx` and `uvx`."""
    folder = tmp_path_factory.mktemp("tools")
    call(sys.executable, "-m", "venv", folder)
    call(folder / "bin" / "python", "-m", "pip", "install", "--quiet", "pipx", "uv")
    return folder / "bin"


def surroundings(folder: Path) -> dict[str, str]:
    """The variables of processes that keep everything in `folder`, and trust what pip trusts."""
    trusted = os.environ.get("PIP_CERT") or ssl.get_default_verify_paths().cafile
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("KAFKA_", "PYTHON", "VIRTUAL_ENV"))},
        **({} if trusted is None else {"SSL_CERT_FILE": trusted}),
        "PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin"), "PIPX_MAN_DIR": str(folder / "man"),
        "UV_CACHE_DIR": str(folder / "cache"), "UV_TOOL_DIR": str(folder / "uv"), "UV_TOOL_BIN_DIR": str(folder / "uv-bin"),
        "UV_PYTHON_DOWNLOADS": "never",
    }  # fmt: skip


def by_pip(package: Path, python: str, tools: Path, folder: Path) -> Installed:
    call(python, "-m", "venv", folder / "environment")
    call(
        folder / "environment" / "bin" / "python", "-m", "pip", "install", "--quiet", package, env=surroundings(folder)
    )
    return [folder / "environment" / "bin" / "barnabas"], folder / "environment" / "share" / "man"


def by_pipx(package: Path, python: str, tools: Path, folder: Path) -> Installed:
    call(tools / "pipx", "install", "--python", python, package, env=surroundings(folder))
    return [folder / "bin" / "barnabas"], folder / "man"


def by_uvx(package: Path, python: str, tools: Path, folder: Path) -> Installed:
    return [tools / "uvx", "--python", python, "--from", package, "barnabas"], None


def by_uv_tool(package: Path, python: str, tools: Path, folder: Path) -> Installed:
    call(tools / "uv", "tool", "install", "--quiet", "--python", python, package, env=surroundings(folder))
    return [folder / "uv-bin" / "barnabas"], folder / "uv" / "barnabas" / "share" / "man"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("source", ["wheel", "clone"])
@pytest.mark.parametrize("install", [by_pip, by_pipx, by_uvx, by_uv_tool])
def test_a_stranger_starts_a_broker(
    install: Callable[[Path, str, Path, Path], Installed],
    source: str,
    version: str,
    wheel: Path,
    tools: Path,
    tmp_path: Path,
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version}")
    package = wheel if source == "wheel" else Path(shutil.copytree(wheel.parent / "source", tmp_path / "clone"))
    command, pages = install(package, python, tools, tmp_path)
    if source == "clone" and install is not by_uvx:
        shutil.rmtree(package)
    project = tmp_path / "project"
    project.mkdir()
    for name in THEIRS:
        (project / f"{name}.py").write_text(f"raise SystemExit('{name} is theirs')\n")
    environment = surroundings(tmp_path)
    assert call(*command, "--version", cwd=project, env=environment).stdout == "barnabas 0.1.0\n"
    if pages is not None:
        assert "\\-\\-partitions" in (pages / "man1" / "barnabas-topics-create.1").read_text()
    port = free_port()
    settings = {"log.dirs": tmp_path / "data", "listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    words = [*command, "start", "--topic", "orders:3"]
    words += [word for name, value in settings.items() for word in ("--override", f"{name}={value}")]
    with (tmp_path / "log").open("w+") as log:
        process = subprocess.Popen(list(map(str, words)), cwd=project, env=environment, stdout=log, stderr=log)
        try:
            assert wait_until(lambda: _has_topic(port), PATIENCE_S, 0.1), (tmp_path / "log").read_text()
            listed = call(*command, "topics", "list", "-b", f"127.0.0.1:{port}", cwd=project, env=environment).stdout
            assert "orders" in listed.split()
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    assert "broker stopped" in (tmp_path / "log").read_text()


def _has_topic(port: int) -> bool:
    try:
        return topics_of(f"127.0.0.1:{port}") == {"orders": 3}
    except OSError:
        return False
