"""The command in one process: whatever packages a user has, it loads its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from barnabas.cli import own_first
from tests.barnabas.installing import ROOT, build_wheel, call, environment, install

THEIRS = ("config", "storage", "runtime", "tools", "broker", "client", "click", "uvloop", "queue")
"""Names of the server's packages, of its dependencies and of the standard library."""
PLACES = ("current folder", "PYTHONPATH", "user site", "user's .pth", "sitecustomize")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (["/here", "/std", "/site"], ["/std", "/site"]),
        (["/std", "/here", "/site"], ["/std", "/here", "/site"]),
        (["/given", "/std", "/site"], ["/std", "/site", "/given"]),
        (["/here", "/given", "/std", "/home", "/home/pth", "/site", "/site/pth"],
         ["/std", "/site", "/site/pth", "/home", "/home/pth", "/given"]),
        (["/std", "/home"], ["/std", "/home"]),
        ([], []),
    ],
)  # fmt: skip
def test_what_the_user_has_comes_last(path: list[str], expected: list[str]) -> None:
    found = own_first(path, started_in=("/here",), given=("/given",), user_site="/home", site_packages=("/site",))
    assert found == expected


@pytest.fixture(scope="module", params=["checkout", pytest.param("wheel", marks=pytest.mark.slow)])
def command(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """A command line and its PYTHONPATH, in an environment that has the user's site."""
    folder = tmp_path_factory.mktemp("environment")
    if request.param == "wheel":
        install(build_wheel(folder), folder / "environment", with_user_site=True)
        return [str(folder / "environment" / "bin" / "barnabas")], ""
    return [str(environment(folder / "environment", with_user_site=True)), "-m", "barnabas.cli"], str(ROOT)


@pytest.mark.parametrize("place", PLACES)
def test_no_package_of_others_is_taken_for_one_of_the_server(
    command: tuple[list[str], str], place: str, tmp_path: Path
) -> None:
    line, python_path = command
    site = tmp_path / "base" / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    theirs = site if place == "user site" else tmp_path / "theirs"
    theirs.mkdir(parents=True)
    site.mkdir(parents=True, exist_ok=True)
    for name in THEIRS:
        (theirs / f"{name}.py").write_text("" if place == "sitecustomize" else f"raise SystemExit('{name} is theirs')")
    if place == "user's .pth":
        (site / "theirs.pth").write_text(str(theirs))
    if place == "sitecustomize":
        (theirs / "sitecustomize.py").write_text("import config, tools")
    given = [str(theirs)] if place in ("PYTHONPATH", "sitecustomize") else []
    surroundings = {
        **os.environ,
        "PYTHONUSERBASE": str(tmp_path / "base"),
        "PYTHONPATH": os.pathsep.join(filter(None, [*given, python_path])),
    }
    (tmp_path / "server.properties").write_text("broker.id=1\n")
    folder = theirs if place == "current folder" else tmp_path
    checked = call(*line, "settings", "--check", tmp_path / "server.properties", cwd=folder, env=surroundings)
    assert checked.stdout.endswith("1 settings, 0 errors, 0 warnings\n")
    assert "--partitions" in call(*line, "topics", "create", "--help", cwd=folder, env=surroundings).stdout
