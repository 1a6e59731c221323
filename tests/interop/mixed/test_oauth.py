"""Brokers of ours and Apache Kafka 3.9.1 in one cluster whose brokers show each other bearer tokens, controller on either."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.interop.cluster.cluster_logs import assert_equal_logs
from tests.interop.conftest import need_java
from tests.interop.security.token_broker import OAUTH_MODULE, SECURITY
from tests.oracle.admin import Admin
from tests.oracle.cluster import KAFKA, OURS, Cluster
from tests.oracle.ports import lasting_port
from tests.security.bearer_tokens import document, rsa_key, rsa_row, signed

pytestmark = [pytest.mark.oracle, pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]
KINDS = {1: KAFKA, 2: OURS, 3: OURS}
PREFIX = "listener.name.brokers.oauthbearer.sasl"
LIFE_S = 3600


def settings(folder: Path) -> dict[str, str]:
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.brokers.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}.jaas.config": f"{OAUTH_MODULE} required;",
        f"{PREFIX}.login.callback.handler.class": f"{SECURITY}.oauthbearer.OAuthBearerLoginCallbackHandler",
        f"{PREFIX}.server.callback.handler.class": f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "keys.json").as_uri(),
        "sasl.oauthbearer.token.endpoint.url": (folder / "token").as_uri(),
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    need_java()
    folder, now_s = tmp_path_factory.mktemp("provider"), int(time.time())
    (folder / "keys.json").write_bytes(document(rsa_row(rsa_key(), kid="one")))
    (folder / "token").write_text(signed(rsa_key(), key_id="one", sub="broker", iat=now_s, exp=now_s + LIFE_S))
    with Cluster(()) as made:
        for number, kind in KINDS.items():
            broker = made.add(number, kind, settings(folder))
            port = lasting_port()
            broker.settings["listeners"] = f"PLAINTEXT://127.0.0.1:{broker.port},BROKERS://localhost:{port}"
            broker.start()
        made.wait_until_known()
        assert made.controller_id == 1
        yield made


def produce(cluster: Cluster, topic: str, partition: int) -> None:
    refused: list[str] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(100):
        producer.produce(
            topic, b"value %d " % number * 100, partition=partition,
            on_delivery=lambda error, _message: refused.append(str(error)) if error else None,
        )  # fmt: skip
    assert producer.flush(60) == 0
    assert not refused, refused[:3]


def test_all_replicas_follow_all_leaders_under_either_controller(cluster: Cluster) -> None:
    Admin(cluster).create("spread", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    cluster.wait_in_sync("spread")
    for partition in range(3):
        produce(cluster, "spread", partition)
    cluster.wait_in_sync("spread")
    assert_equal_logs(cluster, "spread")
    cluster.brokers[1].stop()
    cluster.wait_for("one of ours controls", lambda: cluster.controller_id in (2, 3))
    cluster.brokers[1].start()
    cluster.wait_until_known()
    Admin(cluster).create("under-ours", {0: [1, 2, 3], 1: [2, 1, 3]})
    for partition in (0, 1):
        produce(cluster, "under-ours", partition)
    cluster.wait_in_sync("spread", "under-ours")
    assert_equal_logs(cluster, "under-ours")
