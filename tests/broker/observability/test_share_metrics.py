"""What share groups do is counted: by types of acknowledgements, by share partition, by topic."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable

from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from barnabas.embedded import EmbeddedBroker
from broker.observability import metric_table as table
from broker.observability.share_metrics import ShareMetrics
from protocol.share_states import AcknowledgeType as Kind
from replication.sharing.acknowledgements import AckBatch
from tests.oracle.ports import lasting_port
from tests.oracle.process import wait_until

TIMEOUT_S = 30.0


def test_one_type_is_that_of_each_record_of_a_batch() -> None:
    metrics = ShareMetrics()
    metrics.acknowledged(
        [AckBatch(0, 9, [Kind.ACCEPT]), AckBatch(10, 13, [Kind.RELEASE, Kind.GAP, Kind.REJECT, Kind.RELEASE])]
    )
    metrics.acknowledged([AckBatch(20, 20, [Kind.RENEW])])
    found = {each.labels[0]: each.value for each in metrics.samples(0) if each.metric is table.SHARE_ACKNOWLEDGED}
    assert found == {"Accept": 10, "Release": 2, "Reject": 1, "Renew": 1}


def test_the_page_of_a_broker_with_a_share_group() -> None:
    port = lasting_port()
    settings = {
        "barnabas.http.port": port,
        "barnabas.lag.interval.ms": 100,
        "group.share.delivery.count.limit": 2,
        "group.share.assignment.interval.ms": 0,
    }
    with EmbeddedBroker({"t": 1}, settings=settings) as broker:
        servers = broker.bootstrap_servers

        def value(name: str) -> float | None:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as response:
                page = response.read().decode()
            return next(
                (float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name + " ")), None
            )

        def until(name: str, holds: Callable[[float], bool]) -> None:
            assert wait_until(lambda: (found := value(name)) is not None and holds(found), TIMEOUT_S), (
                name,
                value(name),
            )

        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.GROUP, "g", incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": servers})
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": servers})
        for _ in range(4):
            producer.produce("t", b"value", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        consumer = ShareConsumer(
            {"bootstrap.servers": servers, "group.id": "g", "share.acknowledgement.mode": "explicit", "log_level": 0}
        )
        of_shared = '{group="g",topic="t",partition="0"}'
        try:
            consumer.subscribe(["t"])
            given_up = "barnabas_share_given_up_records_total" + of_shared
            for kinds in ([AcknowledgeType.ACCEPT] * 2 + [AcknowledgeType.RELEASE] * 2, [AcknowledgeType.RELEASE] * 2):
                left = list(kinds)
                while left:
                    for message in consumer.poll(1.0):
                        assert message.error() is None
                        consumer.acknowledge(message, left.pop(0))
                    consumer.commit_sync(TIMEOUT_S)
            until(given_up, lambda count: count == 2)
            until("kafka_consumergroup_lag" + of_shared, lambda lag: lag == 0)
            producer.produce("t", b"another", partition=0)
            assert producer.flush(TIMEOUT_S) == 0
            until("kafka_consumergroup_lag" + of_shared, lambda lag: lag == 1)
            until("kafka_consumergroup_lag_seconds" + of_shared, lambda age: age > 0)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=TIMEOUT_S) as response:
                conditions = json.loads(response.read())["conditions"]
            assert [(each["condition"], each["name"]) for each in conditions] == [
                ("share_group_gave_up_records", "g t-0")
            ]
            acknowledged = "kafka_server_sharegroupmetrics_recordacknowledgements_total"
            assert value(acknowledged + '{ackType="Accept"}') == 2
            assert value(acknowledged + '{ackType="Release"}') == 4
            assert value("kafka_server_sharepartitionmetrics_inflightmessagecount" + of_shared) == 0
            assert value("kafka_server_sharesessioncache_sharesessionscount") == 1
            assert value('kafka_server_brokertopicmetrics_totalsharefetchrequests_total{topic="t"}') == 2
            assert value('kafka_server_group_coordinator_metrics_share_group_count{state="stable"}') == 1
        finally:
            consumer.close()
        until("kafka_server_sharesessioncache_sharesessionscount", lambda count: count == 0)
