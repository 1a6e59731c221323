"""The wheel installs one name, and runs beside a project whose packages have the server's names."""

from __future__ import annotations

import configparser
import email
import os
import re
import subprocess
import zipfile
from pathlib import Path

import httpx
import pytest

from barnabas.commands import TABLE
from barnabas.supported import NEWEST
from tests.barnabas.installing import PATIENCE_S, ROOT, build_wheel, call, install, packages_of
from tests.barnabas.wire import topics_of

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
from barnabas.spark.client import groups
assert groups.KafkaError.__module__ == "barnabas._private.protocol.errors"
assert config.WHOSE == storage.WHOSE == "the project's", "the project's own packages were hidden"
assert "protocol" not in sys.modules
print(sys.modules["barnabas._private.protocol"].__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def test_the_wheel_holds_one_top_level_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    beside = (".dist-info/", ".data/data/share/man/man1/")
    assert {name.split("/")[0] for name in names if not any(each in name for each in beside)} == {"barnabas"}
    pages = {name.rpartition("/")[2] for name in names if name.endswith(".1")}
    assert {
        f"{name}.1" for name in ("barnabas", *(f"barnabas-{each}" for each in TABLE), "barnabas-topics-create")
    } <= pages
    for expected in (
        "cli.py",
        "py.typed",
        "spark/source.py",
        "start.py",
        "supervisor/command.py",
        "_server/broker/commands/settings.py",
        "_server/config/broker/network.py",
    ):
        assert f"barnabas/{expected}" in names
    modules = {
        str(path.relative_to(ROOT)) for package in ("config", "protocol") for path in (ROOT / package).rglob("*.py")
    }
    page = {str(path.relative_to(ROOT)) for path in (ROOT / "web" / "static").rglob("*") if path.is_file()}
    assert page and page | modules <= {name.removeprefix("barnabas/_server/") for name in names}


def test_the_wheel_tells_what_it_needs_and_what_it_gives(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (folder,) = {name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name}
        told = email.message_from_bytes(archive.read(f"{folder}/METADATA"))
        gives = configparser.ConfigParser()
        gives.read_string(archive.read(f"{folder}/entry_points.txt").decode())
    assert re.split("[<>=,]+", told["Requires-Python"]) == ["", f"3.{NEWEST[1] + 1}", "3.11"]
    assert {"cli", "spark", "web"} <= set(told.get_all("Provides-Extra", []))
    assert gives["console_scripts"]["barnabas"] == "barnabas.cli:main"
    assert gives["pytest11"]["barnabas"] == "barnabas.pytest_plugin"


@pytest.mark.slow
def test_installed_beside_packages_of_the_same_names(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    python = install(wheel, environment)
    project = tmp_path / "project"
    for name in THEIRS:
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").write_text('WHOSE = "the project\'s"\n')
    (project / "main.py").write_text(USER_CODE)
    surroundings = {**os.environ, "PYTHONPATH": str(project), "TMPDIR": str(tmp_path)}
    version = call(environment / "bin" / "barnabas", "--version", cwd=project, env=surroundings)
    assert version.stdout == "barnabas 0.1.0\n"
    page = environment / "share" / "man" / "man1" / "barnabas-topics-create.1"
    assert "\\-\\-partitions" in page.read_text(), "where `man` looks for the pages of a command that is in bin"
    loaded = call(python, "-c", SPARK_CODE, cwd=project, env=surroundings).stdout.strip()
    assert loaded == str(packages_of(python) / "barnabas" / "_server" / "protocol" / "__init__.py")
    user = subprocess.Popen(
        [python, "main.py"], cwd=project, env=surroundings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with user:
        assert user.stdin is not None
        assert user.stdout is not None
        address = user.stdout.readline().strip()
        assert topics_of(address) == {"orders": 3}
        listed = call(environment / "bin" / "barnabas", "topics", "list", "-b", address, cwd=project, env=surroundings)
        assert "orders" in listed.stdout.split()
        rules = [environment / "bin" / "barnabas", "relay", "rules"]
        call(*rules, "add", "later", "orders", "--create-topics", "-b", address, cwd=project, env=surroundings)
        relay = subprocess.Popen(
            [*rules[:2], "-b", address], cwd=project, env=surroundings, stdout=subprocess.PIPE, text=True
        )
        with relay:
            try:
                assert relay.stdout is not None
                assert relay.stdout.readline() == "The relay barnabas-relay has begun\n"
            finally:
                relay.terminate()
            assert relay.wait(PATIENCE_S) == 0
        line = [environment / "bin" / "barnabas", "web", "-b", address, "--port", "0"]
        web = subprocess.Popen(line, cwd=project, env=surroundings, stdout=subprocess.PIPE, text=True)
        with web:
            try:
                assert web.stdout is not None
                page = httpx.URL(web.stdout.readline().split()[-1])
                scripts = re.findall(r'src="(/static/[^"]+)"', httpx.get(page, trust_env=False).text)
                assert [httpx.get(page.join(each), trust_env=False).status_code for each in scripts] == [200, 200]
            finally:
                web.terminate()
            assert web.wait(PATIENCE_S) == 0
        user.stdin.write("\n")
        user.stdin.close()
        assert user.wait(PATIENCE_S) == 0
    assert [name for name in os.listdir(tmp_path) if name.startswith("barnabas-")] == []
