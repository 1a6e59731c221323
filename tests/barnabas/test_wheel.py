"""The wheel installs one name, and runs beside a project whose packages have the server's names."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.barnabas.wire import topics_of

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0

THEIRS = ("config", "broker", "storage")
USER_CODE = """
import broker, config, storage
assert config.WHOSE == broker.WHOSE == storage.WHOSE == "the project's", "the project's own packages were hidden"
from barnabas import EmbeddedBroker
with EmbeddedBroker(topics={"orders": 3}) as running:
    print(running.bootstrap_servers, flush=True)
    input()
"""
SPARK_CODE = """
import sys
import config, storage
from barnabas.spark import client
assert client.KafkaError.__module__ == "barnabas._private.protocol.errors"
assert config.WHOSE == storage.WHOSE == "the project's", "the project's own packages were hidden"
assert "protocol" not in sys.modules
print(sys.modules["barnabas._private.protocol"].__file__)
"""


def _call(*line: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    answer = subprocess.run(
        [str(word) for word in line], capture_output=True, text=True, timeout=PATIENCE_S, **options,  # type: ignore[call-overload]
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # A copy, so that a build leaves nothing in the checkout.
    copy = folder / "source"
    names = (
        "broker",
        "config",
        "controller",
        "coordinator",
        "metadata",
        "protocol",
        "replication",
        "runtime",
        "security",
        "storage",
        "tools",
    )
    for name in ("barnabas", *names):
        for file in (ROOT / name).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                target = copy / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    build = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    _call(sys.executable, "-c", build, folder, cwd=copy)
    (built,) = folder.glob("*.whl")
    return built


def test_the_wheel_holds_one_top_level_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"barnabas"}
    for expected in (
        "cli.py",
        "py.typed",
        "spark/source.py",
        "_server/broker/__main__.py",
        "_server/config/broker/network.py",
    ):
        assert f"barnabas/{expected}" in names
    modules = {
        str(path.relative_to(ROOT)) for package in ("config", "protocol") for path in (ROOT / package).rglob("*.py")
    }
    assert modules <= {name.removeprefix("barnabas/_server/") for name in names}


@pytest.mark.slow
def test_installed_beside_packages_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    python = environment / "bin" / "python"
    packages = Path(_call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())
    # The dependencies of this run, without an index: the venv sees them behind its own packages.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    install = [sys.executable, "-m", "pip", "--python", python] if _has_pip() else [sys.executable, "-m", "uv", "pip"]
    if _has_pip():
        _call(*install, "install", "--no-deps", "--no-index", "--quiet", wheel)
    else:
        _call(*install, "install", "--python", python, "--no-deps", "--no-index", "--quiet", wheel)
    project = tmp_path / "project"
    for name in THEIRS:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text('WHOSE = "the project\'s"\n')
    (project / "main.py").write_text(USER_CODE)
    surroundings = {**os.environ, "PYTHONPATH": str(project), "TMPDIR": str(tmp_path)}
    version = _call(environment / "bin" / "barnabas", "--version", cwd=project, env=surroundings)
    assert version.stdout == "barnabas 0.1.0\n"
    loaded = _call(python, "-c", SPARK_CODE, cwd=project, env=surroundings).stdout.strip()
    assert loaded == str(packages / "barnabas" / "_server" / "protocol" / "__init__.py")
    user = subprocess.Popen(
        [python, "main.py"], cwd=project, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with user:
        assert user.stdin is not None
        assert user.stdout is not None
        address = user.stdout.readline().strip()
        assert topics_of(address) == {"orders": 3}
        user.stdin.write("\n")
        user.stdin.close()
        assert user.wait(PATIENCE_S) == 0
    assert [name for name in os.listdir(tmp_path) if name.startswith("barnabas-")] == []


def _has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0
