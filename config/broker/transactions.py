"""The transaction coordinator and its log.

Source: Kafka TransactionLogConfigs, TransactionStateManagerConfigs.
"""

from __future__ import annotations

from config.definition import BOOLEAN, CLUSTER_WIDE, DAY_MS, HOUR_MS, INT, SHORT, MiB, SettingTable, setting
from config.validators import at_least


class TransactionStateSettings(SettingTable):
    transaction_max_timeout_ms: int = setting("transaction.max.timeout.ms", INT, 900_000, at_least(1), effective=True,
        doc="Longest transaction timeout a producer may ask for.")
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable", BOOLEAN, True, None, CLUSTER_WIDE, effective=True,
        doc="Whether a partition asks the coordinator if a transaction is open before it takes its records.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1), effective=True,
        doc="Time between checks for transactions to abort.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms", INT, HOUR_MS, at_least(1), effective=True,
        doc="Time between checks for transactional ids to forget.")
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms", INT, 7 * DAY_MS, at_least(1), effective=True,
        doc="Time after its last use at which a transactional id is forgotten.")
    transaction_state_log_load_buffer_size: int = setting(
        "transaction.state.log.load.buffer.size", INT, 5 * MiB, at_least(1), effective=True,
        doc="Bytes read at a time when transactions are loaded.")
    transaction_state_log_min_isr: int = setting("transaction.state.log.min.isr", INT, 2, at_least(1), effective=True,
        doc="min.insync.replicas of the transaction topic.")
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions", INT, 50, at_least(1), effective=True,
        doc="Partitions of the transaction topic when it is created.")
    transaction_state_log_replication_factor: int = setting(
        "transaction.state.log.replication.factor", SHORT, 3, at_least(1), effective=True,
        doc="Replicas of the transaction topic when it is created.")
    transaction_state_log_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes", INT, 100 * MiB, at_least(1), effective=True,
        doc="Segment size of the transaction topic, in bytes.")
