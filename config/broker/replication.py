"""How followers copy from leaders.

Source: Kafka ReplicationConfigs.
"""

from __future__ import annotations

from config.definition import CLUSTER_WIDE, INT, LONG, STRING, KiB, MiB, SettingTable, setting
from config.validators import at_least


class ReplicationSettings(SettingTable):
    num_replica_fetchers: int = setting("num.replica.fetchers", INT, 1, None, CLUSTER_WIDE, effective=True,
        doc="Connections to each leader that a follower copies through.")
    replica_fetch_backoff_ms: int = setting("replica.fetch.backoff.ms", INT, 1000, at_least(0), effective=True,
        doc="Pause after a failed fetch from a leader.")
    replica_fetch_max_bytes: int = setting("replica.fetch.max.bytes", INT, MiB, at_least(0), effective=True,
        doc="Bytes a follower asks for in one partition.")
    replica_fetch_min_bytes: int = setting("replica.fetch.min.bytes", INT, 1, effective=True,
        doc="Bytes a leader collects before it responds to a follower.")
    replica_fetch_response_max_bytes: int = setting("replica.fetch.response.max.bytes", INT, 10 * MiB, at_least(0),
        effective=True,
        doc="Bytes a follower requests in one response.")
    replica_fetch_wait_max_ms: int = setting("replica.fetch.wait.max.ms", INT, 500, effective=True,
        doc="Time a leader waits for replica.fetch.min.bytes at most.")
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        "replica.high.watermark.checkpoint.interval.ms", LONG, 5000, effective=True,
        doc="Time between writes of the high watermark checkpoint.")
    replica_lag_time_max_ms: int = setting("replica.lag.time.max.ms", LONG, 30_000, effective=True,
        doc="Time a follower may be behind before it leaves the in-sync set.")
    replica_selector_class: str | None = setting("replica.selector.class", STRING, None, effective=True,
        doc="Java class that picks the replica a consumer reads from.")
    replica_socket_receive_buffer_bytes: int = setting("replica.socket.receive.buffer.bytes", INT, 64 * KiB,
        doc="SO_RCVBUF of a follower's socket, in bytes.")
    replica_socket_timeout_ms: int = setting("replica.socket.timeout.ms", INT, 30_000, effective=True,
        doc="Time a follower waits for its leader's response.")
    replication_quota_window_num: int = setting("replication.quota.window.num", INT, 11, at_least(1), effective=True,
        doc="Samples kept of replication rates.")
    replication_quota_window_size_seconds: int = setting("replication.quota.window.size.seconds", INT, 1, at_least(1),
        effective=True,
        doc="Length of a sample of replication rates.")
    alter_log_dirs_replication_quota_window_num: int = setting(
        "alter.log.dirs.replication.quota.window.num", INT, 11, at_least(1), effective=True,
        doc="Samples kept of the rate of moves between log directories.")
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        "alter.log.dirs.replication.quota.window.size.seconds", INT, 1, at_least(1), effective=True,
        doc="Length of a sample of the rate of moves between log directories.")
