"""Partition logs: directories, segments, retention, cleaning, flushing.

Source: Kafka ServerLogConfigs, CleanerConfig.
"""

from __future__ import annotations

from config.definition import (
    BOOLEAN,
    CLUSTER_WIDE,
    DAY_MS,
    DOUBLE,
    INT,
    LIST,
    LONG,
    LONG_MAX,
    STRING,
    GiB,
    KiB,
    MiB,
    SettingTable,
    setting,
)
from config.java_values import DOUBLE_MAX
from config.validators import METADATA_VERSIONS, at_least, between, one_of


class LogSettings(SettingTable):
    log_dir: str = setting("log.dir", STRING, "/tmp/kafka-logs", effective=True,  # noqa: S108  Kafka's default
        doc="Directory of the logs when log.dirs is not set.")
    log_dirs: str | None = setting("log.dirs", STRING, None, effective=True,
        doc="Directories of the logs, separated by commas.")
    log_dir_failure_timeout_ms: int = setting("log.dir.failure.timeout.ms", LONG, 30_000, at_least(1),
        doc="Time until a failed directory must be known to a quorum controller.")
    log_segment_bytes: int = setting("log.segment.bytes", INT, GiB, at_least(14), CLUSTER_WIDE, effective=True,
        doc="Size at which the active segment rolls, in bytes.")
    log_roll_ms: int | None = setting(
        "log.roll.ms", LONG, None, None, CLUSTER_WIDE, effective=True, checked="[1,...]",
        doc="Age of the active segment at which it rolls; before log.roll.hours.")
    log_roll_hours: int = setting("log.roll.hours", INT, 168, at_least(1), effective=True,
        doc="log.roll.ms in hours.")
    log_roll_jitter_ms: int | None = setting(
        "log.roll.jitter.ms", LONG, None, None, CLUSTER_WIDE, effective=True, checked="[0,...]",
        doc="Random time taken off the rolling age, so that not all logs roll at once; before log.roll.jitter.hours.")
    log_roll_jitter_hours: int = setting("log.roll.jitter.hours", INT, 0, at_least(0), effective=True,
        doc="log.roll.jitter.ms in hours.")
    log_retention_ms: int | None = setting(
        "log.retention.ms", LONG, None, None, CLUSTER_WIDE, effective=True, checked="-1 or [1,...]",
        doc="Time after which a segment may be deleted, -1 never; before log.retention.minutes.")
    log_retention_minutes: int | None = setting(
        "log.retention.minutes", INT, None, effective=True, checked="-1 or [1,...]",
        doc="log.retention.ms in minutes; before log.retention.hours.")
    log_retention_hours: int = setting(
        "log.retention.hours", INT, 168, effective=True, checked="-1 or [1,...]",
        doc="log.retention.ms in hours.")
    log_retention_bytes: int = setting("log.retention.bytes", LONG, -1, None, CLUSTER_WIDE, effective=True,
        doc="Size of a partition above which its oldest segments may be deleted, in bytes; -1 never.")
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms", LONG, 300_000, at_least(1), effective=True,
        doc="Time between checks for segments to delete.")
    log_cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy", LIST, ("delete",), one_of("compact", "delete"), CLUSTER_WIDE, effective=True,
        doc="What happens to old segments: delete, compact, or both.")
    log_segment_delete_delay_ms: int = setting(
        "log.segment.delete.delay.ms", LONG, 60_000, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Time a deleted file stays on the disk.")
    log_index_size_max_bytes: int = setting(
        "log.index.size.max.bytes", INT, 10 * MiB, at_least(4), CLUSTER_WIDE, effective=True,
        doc="Size of an index file at most, in bytes.")
    log_index_interval_bytes: int = setting(
        "log.index.interval.bytes", INT, 4 * KiB, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Bytes of records between two index entries.")
    log_preallocate: bool = setting("log.preallocate", BOOLEAN, False, None, CLUSTER_WIDE,
        doc="Whether a new segment takes its full size at once.")
    log_flush_interval_messages: int = setting(
        "log.flush.interval.messages", LONG, LONG_MAX, at_least(1), CLUSTER_WIDE, effective=True,
        doc="Records after which a log is flushed to the disk.")
    log_flush_interval_ms: int | None = setting(
        "log.flush.interval.ms", LONG, None, None, CLUSTER_WIDE, effective=True,
        doc="Time after which a log is flushed to the disk.")
    log_flush_scheduler_interval_ms: int = setting("log.flush.scheduler.interval.ms", LONG, LONG_MAX, effective=True,
        doc="Time between checks for logs to flush; also the default of log.flush.interval.ms.")
    log_flush_offset_checkpoint_interval_ms: int = setting(
        "log.flush.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), effective=True,
        doc="Time between writes of the recovery point checkpoint.")
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        "log.flush.start.offset.checkpoint.interval.ms", INT, 60_000, at_least(0), effective=True,
        doc="Time between writes of the log start offset checkpoint.")
    log_initial_task_delay_ms: int = setting(
        "log.initial.task.delay.ms", LONG, 30_000, at_least(0), internal=True, effective=True,
        doc="Time after the start at which background work on logs begins.")
    log_message_timestamp_type: str = setting(
        "log.message.timestamp.type", STRING, "CreateTime", one_of("CreateTime", "LogAppendTime"),
        CLUSTER_WIDE, effective=True,
        doc="Whose clock a record's timestamp is: CreateTime or LogAppendTime.")
    log_message_timestamp_difference_max_ms: int = setting(
        "log.message.timestamp.difference.max.ms", LONG, LONG_MAX, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Largest distance of a record's timestamp from the broker's clock; deprecated.")
    log_message_timestamp_before_max_ms: int = setting(
        "log.message.timestamp.before.max.ms", LONG, LONG_MAX, at_least(0), CLUSTER_WIDE, effective=True,
        doc="How far a record's timestamp may lie in the past.")
    log_message_timestamp_after_max_ms: int = setting(
        "log.message.timestamp.after.max.ms", LONG, LONG_MAX, at_least(0), CLUSTER_WIDE, effective=True,
        doc="How far a record's timestamp may lie in the future.")
    log_message_format_version: str = setting("log.message.format.version", STRING, "3.0-IV1", METADATA_VERSIONS,
        doc="Record format before 3.0; kept for old configuration files.")
    log_message_downconversion_enable: bool = setting(
        "log.message.downconversion.enable", BOOLEAN, True, None, CLUSTER_WIDE, effective=True,
        doc="Whether records are converted for consumers that know only old formats.")
    log_cleaner_enable: bool = setting("log.cleaner.enable", BOOLEAN, True, effective=True,
        doc="Whether compacted topics are cleaned.")
    log_cleaner_threads: int = setting("log.cleaner.threads", INT, 1, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Cleanings that may run at once.")
    log_cleaner_dedupe_buffer_size: int = setting(
        "log.cleaner.dedupe.buffer.size", LONG, 128 * MiB, None, CLUSTER_WIDE, effective=True,
        doc="Memory for the keys of all cleanings, in bytes.")
    log_cleaner_io_buffer_size: int = setting(
        "log.cleaner.io.buffer.size", INT, 512 * KiB, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Memory for reading and writing of all cleanings, in bytes.")
    log_cleaner_io_buffer_load_factor: float = setting(
        "log.cleaner.io.buffer.load.factor", DOUBLE, 0.9, None, CLUSTER_WIDE, effective=True,
        doc="How full the table of keys may become, as a share of one.")
    log_cleaner_io_max_bytes_per_second: float = setting(
        "log.cleaner.io.max.bytes.per.second", DOUBLE, DOUBLE_MAX, None, CLUSTER_WIDE, effective=True,
        doc="Bytes a second that cleaning may read and write.")
    log_cleaner_backoff_ms: int = setting("log.cleaner.backoff.ms", LONG, 15_000, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Pause when there is nothing to clean.")
    log_cleaner_min_cleanable_ratio: float = setting(
        "log.cleaner.min.cleanable.ratio", DOUBLE, 0.5, between(0, 1), CLUSTER_WIDE, effective=True,
        doc="Share of a log that must be uncleaned before it is cleaned.")
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms", LONG, DAY_MS, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Time a delete marker stays in a compacted topic.")
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms", LONG, 0, at_least(0), CLUSTER_WIDE, effective=True,
        doc="Time a record stays uncompacted at least.")
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms", LONG, LONG_MAX, at_least(1), CLUSTER_WIDE, effective=True,
        doc="Time a record stays uncompacted at most.")
    log_local_retention_ms: int = setting("log.local.retention.ms", LONG, -2, at_least(-2), CLUSTER_WIDE,
        doc="Time a segment stays on the local disk after it was copied to remote storage; -2 as retention.")
    log_local_retention_bytes: int = setting("log.local.retention.bytes", LONG, -2, at_least(-2), CLUSTER_WIDE,
        doc="Size a partition keeps on the local disk with remote storage, in bytes; -2 as retention.")
    num_recovery_threads_per_data_dir: int = setting(
        "num.recovery.threads.per.data.dir", INT, 1, at_least(1), CLUSTER_WIDE, effective=True,
        doc="Logs of one directory that are recovered at once.")
    num_replica_alter_log_dirs_threads: int | None = setting("num.replica.alter.log.dirs.threads", INT, None, effective=True,
        doc="Moves between log directories that run at once.")
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms", INT, DAY_MS, at_least(1), CLUSTER_WIDE, effective=True,
        doc="Time after its last write at which an idempotent producer is forgotten.")
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms", INT, 600_000, at_least(1), effective=True, internal=True,
        doc="Time between checks for producers to forget.")
