"""The processes beside brokers: what they are told, and that their end is nobody else's."""

from __future__ import annotations

import re
import signal
import urllib.request
from contextlib import nullcontext
from pathlib import Path

import pytest

from barnabas.supervisor import companion_process
from barnabas.supervisor.companion_process import companion_properties, require_web
from broker.composition import listener_plans
from config.acl_settings import ACL_AUTHORIZER
from config.broker import BrokerSettings
from config.companion import RELAY, Companion
from config.companion import WEB as WEB_PROCESS
from config.errors import ConfigError
from config.relay import require_login
from runtime.network.transport import Address
from tests.barnabas.supervisor.several import PATIENCE_S, Several, kill, lives, produce, read, start_line, until

PLAIN: dict[str, str] = {}
SECURED = {
    "listeners": "IN://:9092,OUT://:9093",
    "advertised.listeners": "IN://in.example.com:9092,OUT://out.example.com:9093",
    "listener.security.protocol.map": "IN:SASL_SSL,OUT:PLAINTEXT",
    "inter.broker.listener.name": "IN",
    "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-512,PLAIN",
    "ssl.keystore.location": "/keys",
    "ssl.keystore.password": "of-the-broker",
    "ssl.truststore.location": "/general",
    "listener.name.in.ssl.truststore.location": "/of-this-listener",
    "ssl.truststore.type": "PEM",
}
WEB = {"barnabas.web.enable": "true"}


def told(given: dict[str, str], ports: tuple[int, ...] = (9092,), of: Companion = WEB_PROCESS) -> dict[str, str]:
    settings = BrokerSettings.from_sources(given | WEB, {}, {})
    plans = listener_plans(settings)
    addresses = [Address(plans[0].bind.host, port) for port in ports]
    return companion_properties(of, settings, plans[0], addresses)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (PLAIN, {"bootstrap.servers": "localhost:9092", "security.protocol": "PLAINTEXT"}),
        ({"barnabas.web.write.enable": "true", "schema.registry.ur": "x"}, {"barnabas.web.write.enable": "true"}),
        (SECURED, {"bootstrap.servers": "in.example.com:9092", "security.protocol": "SASL_SSL"}),
        (SECURED, {"sasl.mechanism": "SCRAM-SHA-512", "ssl.truststore.location": "/of-this-listener"}),
        (SECURED | {"barnabas.web.client.sasl.mechanism": "PLAIN"}, {"sasl.mechanism": "PLAIN"}),
        (
            SECURED
            | {"barnabas.web.client.bootstrap.servers": "h:1", "barnabas.web.client.ssl.truststore.location": "/o"},
            {"bootstrap.servers": "h:1", "ssl.truststore.location": "/o"},
        ),
        ({"listeners": "PLAINTEXT://[::1]:9092"}, {"bootstrap.servers": "[::1]:9092"}),
    ],
)
def test_it_reaches_the_cluster_by_the_first_listener(given: dict[str, str], expected: dict[str, str]) -> None:
    properties = told(given)
    assert expected.items() <= properties.items()
    assert "barnabas.web.enable" not in properties
    assert not any(name.startswith(("barnabas.web.client.", "ssl.keystore.")) for name in properties)
    assert "of-the-broker" not in properties.values()


def test_each_has_its_own_settings() -> None:
    given = {"barnabas.relay.name": "later", "barnabas.relay.client.client.id": "r", "barnabas.web.port": "0"}
    properties = told(given, of=RELAY)
    assert properties["barnabas.relay.name"] == "later"
    assert properties["client.id"] == "r"
    assert not any(name.startswith("barnabas.web.") for name in properties)


def test_a_relay_knows_what_the_authorizer_of_the_brokers_knows() -> None:
    given = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:a;User:b"}
    assert told(given, of=RELAY)["barnabas.relay.super.users"] == "User:a;User:b"
    assert told(given, of=RELAY)["barnabas.relay.allow.everyone.if.no.acl.found"] == "false"
    own = {"barnabas.relay.super.users": "User:c"}
    assert told(given | own, of=RELAY)["barnabas.relay.super.users"] == "User:c"
    assert "barnabas.relay.super.users" not in told(given)
    assert "barnabas.relay.super.users" not in told({}, of=RELAY)


@pytest.mark.parametrize(
    ("given", "is_refused"),
    [
        ({}, True),
        ({"barnabas.relay.client.sasl.mechanism": "PLAIN"}, True),
        ({"barnabas.relay.client.sasl.username": "relay"}, False),
        ({"barnabas.relay.client.security.protocol": "PLAINTEXT"}, False),
    ],
)
def test_a_relay_needs_a_login_where_brokers_want_one(given: dict[str, str], is_refused: bool) -> None:
    with pytest.raises(ConfigError, match="needs who the relay is") if is_refused else nullcontext():
        require_login(given, "SASL_SSL")
    require_login(given, "PLAINTEXT")


def test_it_knows_all_brokers() -> None:
    assert told(PLAIN, (9092, 9093))["bootstrap.servers"] == "localhost:9092,localhost:9093"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"barnabas.web.prot": "1"}, "unknown setting barnabas.web.prot: did you mean barnabas.web.port?"),
        ({"barnabas.web.host": "0.0.0.0"}, "can be reached from other machines"),
        ({"barnabas.web.host": "::", "barnabas.web.ssl.keystore.location": "/k"}, "security.protocol=SASL_SSL"),
        ({"barnabas.web.trusted.proxies": "10.0.0.1/8"}, "host bits set"),
    ],
)
def test_what_would_be_open_or_is_unknown_stops_the_start(given: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        require_web(BrokerSettings.from_sources(given | WEB, {}, {}), "PLAINTEXT")


@pytest.mark.parametrize(
    ("given", "protocol"),
    [
        ({}, "PLAINTEXT"),
        ({"barnabas.web.host": "::1"}, "PLAINTEXT"),
        ({"barnabas.web.host": "10.0.0.2", "barnabas.web.trusted.proxies": "10.0.0.1"}, "PLAINTEXT"),
        ({"barnabas.web.host": "10.0.0.2", "barnabas.web.ssl.keystore.location": "/k"}, "SASL_SSL"),
    ],
)
def test_what_is_not_open_may_start(given: dict[str, str], protocol: str) -> None:
    require_web(BrokerSettings.from_sources(given | WEB, {}, {}), protocol)


def status_of(address: str) -> int | None:
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            return int(answer.status)
    except OSError:
        return None


@pytest.mark.parametrize("count", [None, 2])
def test_it_is_started_again_and_no_broker_notices(tmp_path: Path, count: int | None) -> None:
    settings = WEB | {"barnabas.web.port": "0", "broker.id": "7"}
    several = () if count is None else ("--brokers", str(count))
    with Several(tmp_path, 1, line=start_line(tmp_path, *several, settings=settings)) as brokers:
        (page,) = re.findall(r"http://\S+/ui/", brokers.banner)
        until(lambda: status_of(page) == 200)
        produce(brokers.bootstrap_servers, "orders", ["1"])
        kill(brokers.processes["web"])
        until(lambda: "process started again: name=web" in brokers.log.read_text())
        until(lambda: status_of(page) == 200)
        assert read(brokers.bootstrap_servers, "orders", 1) == ["1"]
        assert all(lives(process_id) for name, process_id in brokers.processes.items() if name != "web")
        (again,) = map(int, re.findall(r"again: name=web process_id=([0-9]+)", brokers.log.read_text()))
        assert brokers.stop(signal.SIGINT) == 0
    until(lambda: not any(lives(process_id) for process_id in (*brokers.processes.values(), again)))
    assert "broker started again" not in brokers.log.read_text()


def test_settings_that_it_refuses_stop_nobody_else(tmp_path: Path) -> None:
    settings = WEB | {"barnabas.web.port": "0", "barnabas.web.client.request.timeout.ms": "never"}
    with Several(tmp_path, 1, line=start_line(tmp_path, settings=settings)) as brokers:
        until(lambda: "process not started, its own lines say why: name=web exit_code=2" in brokers.log.read_text())
        assert "request.timeout.ms=never is not a whole number" in brokers.log.read_text()
        produce(brokers.bootstrap_servers, "orders", ["1"])
        assert brokers.stop() == 0


def test_a_start_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion_process, "find_spec", lambda name: None if name == "fastapi" else name)
    with pytest.raises(
        ConfigError, match=r'barnabas.web.enable=true needs the extra web: in a clone, pip install "\.\[web\]"'
    ):
        require_web(BrokerSettings.from_sources(WEB, {}, {}), "PLAINTEXT")
