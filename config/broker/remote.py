"""Remote (tiered) storage.

Source: Kafka RemoteLogManagerConfig.
"""

from __future__ import annotations

from config.definition import BOOLEAN, CLUSTER_WIDE, DOUBLE, INT, LONG, LONG_MAX, STRING, GiB, SettingTable, setting
from config.validators import NON_EMPTY_TEXT, at_least, between


class RemoteStorageSettings(SettingTable):
    remote_fetch_max_wait_ms: int = setting("remote.fetch.max.wait.ms", INT, 500, at_least(1), CLUSTER_WIDE,
        doc="Time a fetch waits for remote storage.")
    remote_log_index_file_cache_total_size_bytes: int = setting(
        "remote.log.index.file.cache.total.size.bytes", LONG, GiB, at_least(1), CLUSTER_WIDE,
        doc="Disk space for indexes fetched from remote storage, in bytes.")
    remote_log_manager_copier_thread_pool_size: int = setting(
        "remote.log.manager.copier.thread.pool.size", INT, -1, at_least(1, also=-1),
        doc="Threads that copy to remote storage; -1 as the common pool.")
    remote_log_manager_copy_max_bytes_per_second: int = setting(
        "remote.log.manager.copy.max.bytes.per.second", LONG, LONG_MAX, at_least(1), CLUSTER_WIDE,
        doc="Bytes a second copied to remote storage.")
    remote_log_manager_copy_quota_window_num: int = setting(
        "remote.log.manager.copy.quota.window.num", INT, 11, at_least(1),
        doc="Samples kept of the copying rate.")
    remote_log_manager_copy_quota_window_size_seconds: int = setting(
        "remote.log.manager.copy.quota.window.size.seconds", INT, 1, at_least(1),
        doc="Length of a sample of the copying rate.")
    remote_log_manager_expiration_thread_pool_size: int = setting(
        "remote.log.manager.expiration.thread.pool.size", INT, -1, at_least(1, also=-1),
        doc="Threads that expire remote segments; -1 as the common pool.")
    remote_log_manager_fetch_max_bytes_per_second: int = setting(
        "remote.log.manager.fetch.max.bytes.per.second", LONG, LONG_MAX, at_least(1), CLUSTER_WIDE,
        doc="Bytes a second read from remote storage.")
    remote_log_manager_fetch_quota_window_num: int = setting(
        "remote.log.manager.fetch.quota.window.num", INT, 11, at_least(1),
        doc="Samples kept of the reading rate.")
    remote_log_manager_fetch_quota_window_size_seconds: int = setting(
        "remote.log.manager.fetch.quota.window.size.seconds", INT, 1, at_least(1),
        doc="Length of a sample of the reading rate.")
    remote_log_manager_task_interval_ms: int = setting(
        "remote.log.manager.task.interval.ms", LONG, 30_000, at_least(1),
        doc="Time between checks for segments to copy.")
    remote_log_manager_task_retry_backoff_max_ms: int = setting(
        "remote.log.manager.task.retry.backoff.max.ms", LONG, 30_000, at_least(1), internal=True,
        doc="Longest pause after a failed copy.")
    remote_log_manager_task_retry_backoff_ms: int = setting(
        "remote.log.manager.task.retry.backoff.ms", LONG, 500, at_least(1), internal=True,
        doc="First pause after a failed copy.")
    remote_log_manager_task_retry_jitter: float = setting(
        "remote.log.manager.task.retry.jitter", DOUBLE, 0.2, between(0, 0.5), internal=True,
        doc="Random share added to the pause after a failed copy.")
    remote_log_manager_thread_pool_size: int = setting("remote.log.manager.thread.pool.size", INT, 10, at_least(1),
        doc="Threads for remote storage.")
    remote_log_metadata_custom_metadata_max_bytes: int = setting(
        "remote.log.metadata.custom.metadata.max.bytes", INT, 128, at_least(0),
        doc="Custom metadata of a remote segment at most, in bytes.")
    remote_log_metadata_manager_class_name: str = setting(
        "remote.log.metadata.manager.class.name", STRING,
        "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
        NON_EMPTY_TEXT,
        doc="Java class that keeps the metadata of remote segments.")
    remote_log_metadata_manager_class_path: str | None = setting(
        "remote.log.metadata.manager.class.path", STRING, None,
        doc="Class path of the class that keeps the metadata of remote segments.")
    remote_log_metadata_manager_impl_prefix: str = setting(
        "remote.log.metadata.manager.impl.prefix", STRING, "rlmm.config.", NON_EMPTY_TEXT,
        doc="Prefix of the settings of the class that keeps the metadata of remote segments.")
    remote_log_metadata_manager_listener_name: str | None = setting(
        "remote.log.metadata.manager.listener.name", STRING, None, NON_EMPTY_TEXT,
        doc="Listener that the class that keeps the metadata of remote segments uses.")
    remote_log_reader_max_pending_tasks: int = setting("remote.log.reader.max.pending.tasks", INT, 100, at_least(1),
        doc="Remote reads that may wait.")
    remote_log_reader_threads: int = setting("remote.log.reader.threads", INT, 10, at_least(1),
        doc="Threads for remote reads.")
    remote_log_storage_manager_class_name: str | None = setting(
        "remote.log.storage.manager.class.name", STRING, None, NON_EMPTY_TEXT,
        doc="Java class that reaches the remote storage.")
    remote_log_storage_manager_class_path: str | None = setting("remote.log.storage.manager.class.path", STRING, None,
        doc="Class path of the class that reaches the remote storage.")
    remote_log_storage_manager_impl_prefix: str = setting(
        "remote.log.storage.manager.impl.prefix", STRING, "rsm.config.", NON_EMPTY_TEXT,
        doc="Prefix of the settings of the class that reaches the remote storage.")
    remote_log_storage_system_enable: bool = setting("remote.log.storage.system.enable", BOOLEAN, False,
        doc="Whether remote storage is used.")
