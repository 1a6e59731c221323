"""Server packages are loaded under a private name; the user's modules of the same names stay the user's."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import barnabas
import barnabas.spark as _spark  # noqa: F401  installs the private names

ROOT = Path(barnabas.__file__).parents[1]
NAMES = ("protocol", "config", "storage", "runtime", "security", "client")
USER_CODE = """
import sys
import protocol, config, storage, runtime, security, client
before = list(sys.path)
import barnabas.spark
from barnabas.spark.client import client_options
from barnabas.spark.reading import columns
from barnabas._private.storage import checkpoint
from barnabas._private.protocol.errors import ErrorCode
import barnabas._private.protocol as private
for name in ("protocol", "config", "storage", "runtime", "security", "client"):
    assert sys.modules[name].WHOSE == "the user's", name
    assert not [other for other in sys.modules if other.startswith(name + ".")], name
assert sys.path == before
assert ErrorCode.__module__ == "barnabas._private.protocol.errors"
assert checkpoint.decode_offsets(b"0\\n1\\norders 0 12\\n") == {("orders", 0): 12}
print(private.__file__)
"""


def user_folder(tmp_path: Path, *, as_packages: bool) -> Path:
    """A project with modules, or packages, of the server's names."""
    folder = tmp_path / "project"
    folder.mkdir()
    for name in NAMES:
        file = folder / name / "__init__.py" if as_packages else folder / f"{name}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text('WHOSE = "the user\'s"\n')
    return folder


def run(folder: Path, *path: Path) -> str:
    found = os.pathsep.join(map(str, (folder, *path)))
    ran = subprocess.run(
        [sys.executable, "-c", USER_CODE],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": found},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.parametrize("as_packages", [False, True])
def test_users_modules_stay_theirs_in_a_checkout(tmp_path: Path, as_packages: bool) -> None:
    pytest.importorskip("pyarrow", reason="columns are Arrow's; make interop has it")
    loaded = run(user_folder(tmp_path, as_packages=as_packages), ROOT)
    assert loaded == str(ROOT / "protocol" / "__init__.py")


def test_users_modules_stay_theirs_beside_an_installed_package(tmp_path: Path) -> None:
    """The layout of the wheel: the server's packages are files below `barnabas/_server`."""
    pytest.importorskip("pyarrow", reason="columns are Arrow's; make interop has it")
    installed = tmp_path / "installed"
    (installed / "barnabas" / "_server").mkdir(parents=True)
    for entry in (ROOT / "barnabas").iterdir():
        if entry.name not in ("__pycache__", "_server"):
            (installed / "barnabas" / entry.name).symlink_to(entry)
    # A symbolic link resolves to the checkout only where somebody resolves it, and `server_folder` does not.
    for name in NAMES:
        (installed / "barnabas" / "_server" / name).symlink_to(ROOT / name)
    loaded = run(user_folder(tmp_path, as_packages=True), installed)
    assert loaded == str(installed / "barnabas" / "_server" / "protocol" / "__init__.py")


def test_private_classes_can_be_pickled() -> None:
    from barnabas._private.protocol.errors import (  # type: ignore[import-not-found, unused-ignore]
        ErrorCode,
        KafkaError,
    )

    error = pickle.loads(pickle.dumps(ErrorCode.NOT_LEADER_OR_FOLLOWER))
    assert error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert KafkaError.__module__ == "barnabas._private.protocol.errors"


def test_other_server_packages_are_not_there() -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__("barnabas._private.broker")
