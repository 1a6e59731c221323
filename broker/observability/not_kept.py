"""What Apache Kafka measures and this broker does not, by the reason.

Rules: patterns of MBeans as in `Metric.patterns`, in which "*" stands for anything; each matches an MBean of Apache Kafka, and
none of the table's. `OTHER_LABELS` are metrics of the table whose labels differ from those of jmx_exporter.
"""

from __future__ import annotations

NOT_KEPT: dict[str, tuple[str, ...]] = {
    "A client or user has its throttle times in the metrics of quotas; connections that are throttled are in no queue.": (
        *(f"kafka.server:type={kind}" for kind in ("ControllerMutation", "Fetch", "Produce", "Request")),
    ),
    "One event loop accepts connections, reads, handles and writes: no queue stands between threads. What a request waits "
    "for is in RemoteTimeMs, and how late the event loop comes to it in barnabas_event_loop_delay_seconds.": (
        "kafka.network:type=Acceptor,*",
        "kafka.network:type=RequestChannel,name=ResponseQueueSize*",
        *(f"kafka.network:type=RequestMetrics,name={name}TimeMs,request" for name in ("RequestQueue", "ResponseQueue")),
        "kafka.network:type=RequestMetrics,name=ResponseSendTimeMs,request",
    ),
    "Converted records are counted in the budget of requests (MemoryPoolUsed).": (
        "kafka.network:type=RequestMetrics,name=TemporaryMemoryBytes,request",
    ),
    "All listeners share one event loop; control requests wait in none of its queues.": (
        "kafka.network:type=SocketServer,name=ControlPlane*",
    ),
    "Figures of Kafka's own network client. Requests between brokers are in FetcherStats, RequestRateAndQueueTimeMs and "
    "VerificationTimeMs.": (
        "kafka.server:type=alter-partition-metrics,BrokerId",
        "kafka.server:type=controller-channel-metrics,broker-id",
        "kafka.server:type=forwarding-metrics,BrokerId",
        "kafka.server:type=replica-fetcher-metrics,broker-id,fetcher-id",
        "kafka.server:type=AddPartitionsManager-channel-metrics",
        "kafka.server:type=txn-marker-channel-metrics",
    ),
    "Nobody could read it, or it never happens.": (
        "kafka.controller:type=ControllerStats,name=ControllerShutdownRateAndTimeMs",
        "kafka.server:type=SessionExpireListener,name=ZooKeeperReadOnlyConnectsPerSec",
    ),
    "A rate over a window, which a query makes of a counter (ReplicationBytesOutPerSec).": (
        "kafka.server:type=LeaderReplication",
    ),
    "A word, which is no metric, or a figure of the JVM and of its metrics.": (
        "kafka.server:type=KafkaServer,name=ClusterId",
        "kafka.server:type=KafkaServer,name=yammer-metrics-count",
        "kafka.server:type=app-info*",
        "kafka.server:type=kafka-metrics-count",
        "kafka:type=kafka.Log4jController",
    ),
}

OTHER_LABELS: dict[str, str] = {
    "kafka_server_fetcherstats_bytes_total": (
        "clientId, brokerHost and brokerPort; jmx_exporter puts the client id into the name of a label"
    ),
    "kafka_server_fetcherstats_requests_total": "clientId, brokerHost and brokerPort, as above",
}
"""Why the labels of a metric are not those of jmx_exporter."""
