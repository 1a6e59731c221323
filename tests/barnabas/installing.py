"""The wheel, built and installed as a user would install it, without an index."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120.0
SERVER = (
    "broker", "client", "config", "controller", "coordinator", "metadata", "protocol", "relay", "replication", "runtime",
    "security", "storage", "tools", "web",
)  # fmt: skip


def call(*line: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command that must succeed."""
    answer = subprocess.run(
        [str(word) for word in line], capture_output=True, text=True, timeout=PATIENCE_S, **options,  # type: ignore[call-overload]
    )  # fmt: skip
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer  # type: ignore[no-any-return]


def build_wheel(folder: Path) -> Path:
    """Build it from a copy in `folder`, so that a build leaves nothing in the checkout."""
    copy = folder / "source"
    for name in ("barnabas", *SERVER):
        for file in (ROOT / name).rglob("*"):
            if file.is_file() and "__pycache__" not in file.parts:
                target = copy / file.relative_to(ROOT)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_bytes())
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    build = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
    call(sys.executable, "-c", build, folder, cwd=copy)
    (built,) = folder.glob("*.whl")
    return built


def environment(folder: Path, *, with_user_site: bool = False) -> Path:
    """Make a virtual environment that has the packages of this run behind its own. Returns its Python."""
    venv.create(folder, with_pip=False, symlinks=True, system_site_packages=with_user_site)
    python = folder / "bin" / "python"
    (packages_of(python) / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def install(wheel: Path, folder: Path, *, with_user_site: bool = False) -> Path:
    """Make a virtual environment that has the wheel, and behind it the packages of this run. Returns its Python."""
    python = environment(folder, with_user_site=with_user_site)
    if _has_pip():
        call(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", wheel)
    else:
        uv = [sys.executable, "-m", "uv", "pip", "install", "--python", python]
        call(*uv, "--no-deps", "--no-index", "--quiet", wheel)
    return python


def packages_of(python: Path) -> Path:
    """The folder of a virtual environment's packages."""
    return Path(call(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip())


def _has_pip() -> bool:
    return subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0
