"""The settings of topics and brokers that a view has, by name. Pure."""

from __future__ import annotations

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
OF_TOPICS = (MIN_ISR, UNCLEAN, *THROTTLED_REPLICAS)

DISK_FLOOR = "barnabas.disk.free.min.bytes"
SEGMENT_BYTES = "log.segment.bytes"
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
INTERNAL_REPLICAS = {
    "__consumer_offsets": "offsets.topic.replication.factor",
    "__transaction_state": "transaction.state.log.replication.factor",
    "__share_group_state": "share.coordinator.state.topic.replication.factor",
}
"""By internal topic, the setting that says with how many replicas it is created."""
STORE = "zookeeper.connect"
HTTP_HOST, HTTP_PORT = "barnabas.http.host", "barnabas.http.port"
OF_BROKERS = (
    DISK_FLOOR, SEGMENT_BYTES, *THROTTLED_RATES, *INTERNAL_REPLICAS.values(), STORE, HTTP_HOST, HTTP_PORT
)  # fmt: skip
