"""The table of names: every name of the clients is in one place of it."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import confluent_kafka
import pytest

from client.settings.names import REFUSED, SAME, WITH_EFFECT, WITHOUT_EFFECT, is_known, nearest
from tests.oracle import java

FOR_PROGRAMS = re.compile(r".*_cb$|^ssl_.*|.*_data$|^(default_topic_conf|enabled_events|msg_order_cmp|opaque)$")
"""Settings of librdkafka that a program makes, not a file."""


def test_a_name_is_in_one_place() -> None:
    places = [WITH_EFFECT, frozenset(SAME), frozenset(REFUSED), WITHOUT_EFFECT]
    assert sum(map(len, places)) == len(frozenset().union(*places))
    assert set(SAME.values()) <= WITH_EFFECT


def test_every_name_of_the_installed_librdkafka_is_known(tmp_path: Path) -> None:
    libraries = list((Path(confluent_kafka.__file__).parents[1] / "confluent_kafka.libs").glob("librdkafka*"))
    if not libraries:
        pytest.skip("this confluent-kafka uses a librdkafka of the system")
    page = tmp_path / "names"
    libc, librdkafka = ctypes.CDLL(None), ctypes.CDLL(str(libraries[0]))
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(str(page).encode(), b"w"))
    librdkafka.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    names = {line.partition("|")[0].strip() for line in page.read_text().splitlines() if re.match("[a-z]", line)}
    assert len(names) > 150
    assert {name for name in names if not is_known(name) and not FOR_PROGRAMS.match(name)} == set()


@pytest.mark.oracle
def test_every_name_of_apache_kafkas_clients_is_known() -> None:
    reason = java.missing()
    if reason and not java.required():
        pytest.skip(reason)
    command = java.command("", [])
    command[-1:] = [str(java.HERE / "ClientSettingNames.java")]
    names = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout.split()
    assert len(names) > 100
    assert [name for name in names if not is_known(name)] == []


def test_the_nearest_name() -> None:
    assert nearest("ssl.truststor.location") == "ssl.truststore.location"
    assert nearest("sasl.mecanism") == "sasl.mechanism"
    assert nearest("Bootstrap.Server") == "bootstrap.servers"
    assert nearest("something.else.entirely") is None
