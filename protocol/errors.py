"""Kafka's error codes: one table of number, name, whether a client may retry, and meaning. Pure.

An expected failure is an `ErrorCode` in a response. Code that cannot reach the response raises `KafkaError`, and
dispatch turns it into the response. The texts are ours; where Kafka's wording reaches a client, the raiser gives
`message`. Source: org.apache.kafka.common.protocol.Errors of Apache Kafka 3.9.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class ErrorCode(IntEnum):
    """The error codes: a member's value is its number on the wire; `retriable` and `message` are its attributes."""

    retriable: bool
    """The same request may succeed later, perhaps after the client has refreshed its metadata."""
    message: str

    def __new__(cls, code: int, retriable: bool = False, message: str = "") -> ErrorCode:
        # The defaults are only for type checkers, which treat `ErrorCode(3)` as a call of this.
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    # fmt: off
    UNKNOWN_SERVER_ERROR = (-1, False, "The server met an error it did not expect.")
    NONE = (0, False, "No error.")
    OFFSET_OUT_OF_RANGE = (1, False, "The offset is outside the range of offsets that this partition holds.")
    CORRUPT_MESSAGE = (
        2, True,
        "The batch fails its CRC check, is larger than it may be, or has a null key in a compacted topic.")
    UNKNOWN_TOPIC_OR_PARTITION = (3, True, "This server does not host this topic or partition.")
    INVALID_FETCH_SIZE = (4, False, "The requested fetch size is not valid.")
    LEADER_NOT_AVAILABLE = (5, True, "The partition has no leader at this moment: an election is under way.")
    NOT_LEADER_OR_FOLLOWER = (
        6, True,
        "For a request meant for the leader: this broker is not the leader. For one meant for a replica: it is none.")
    REQUEST_TIMED_OUT = (7, True, "The request timed out.")
    BROKER_NOT_AVAILABLE = (8, False, "The broker is not available.")
    REPLICA_NOT_AVAILABLE = (9, True, "The replica is not available for this topic partition.")
    MESSAGE_TOO_LARGE = (10, False, "The request holds a record batch larger than the server accepts.")
    STALE_CONTROLLER_EPOCH = (11, False, "The request comes from a controller of an earlier epoch.")
    OFFSET_METADATA_TOO_LARGE = (12, False, "The metadata string of the committed offset is too long.")
    NETWORK_EXCEPTION = (13, True, "The connection ended before an answer came.")
    COORDINATOR_LOAD_IN_PROGRESS = (14, True, "The coordinator is loading and cannot answer yet.")
    COORDINATOR_NOT_AVAILABLE = (15, True, "The coordinator is not available.")
    NOT_COORDINATOR = (16, True, "This broker is not the coordinator.")
    INVALID_TOPIC_EXCEPTION = (17, False, "The topic name or the operation on this topic is not valid.")
    RECORD_LIST_TOO_LARGE = (18, False, "The record batch is larger than a segment of this server may be.")
    NOT_ENOUGH_REPLICAS = (19, True, "Fewer replicas are in sync than the topic requires, so the batch was refused.")
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20, True,
        "The batch was written, but fewer replicas are in sync than the topic requires.")
    INVALID_REQUIRED_ACKS = (21, False, "The value of acks is not valid.")
    ILLEGAL_GENERATION = (22, False, "The group generation is not valid.")
    INCONSISTENT_GROUP_PROTOCOL = (23, False, "The member's protocol type or protocols do not fit those of the group.")
    INVALID_GROUP_ID = (24, False, "The group id is not valid.")
    UNKNOWN_MEMBER_ID = (25, False, "The coordinator does not know this member.")
    INVALID_SESSION_TIMEOUT = (26, False, "The session timeout is outside the range that the broker allows.")
    REBALANCE_IN_PROGRESS = (27, False, "The group is rebalancing: join again.")
    INVALID_COMMIT_OFFSET_SIZE = (28, False, "The committed offset record would be too large.")
    TOPIC_AUTHORIZATION_FAILED = (29, False, "Access to the topic is not authorised.")
    GROUP_AUTHORIZATION_FAILED = (30, False, "Access to the group is not authorised.")
    CLUSTER_AUTHORIZATION_FAILED = (31, False, "Access to the cluster is not authorised.")
    INVALID_TIMESTAMP = (32, False, "The timestamp of a record is outside the accepted range.")
    UNSUPPORTED_SASL_MECHANISM = (33, False, "The server does not support this SASL mechanism.")
    ILLEGAL_SASL_STATE = (34, False, "The request is not valid in this state of SASL authentication.")
    UNSUPPORTED_VERSION = (35, False, "This version of the API is not supported.")
    TOPIC_ALREADY_EXISTS = (36, False, "A topic of this name exists already.")
    INVALID_PARTITIONS = (37, False, "The number of partitions is not valid.")
    INVALID_REPLICATION_FACTOR = (
        38, False,
        "The replication factor is below one or larger than the number of available brokers.")
    INVALID_REPLICA_ASSIGNMENT = (39, False, "The replica assignment is not valid.")
    INVALID_CONFIG = (40, False, "The configuration is not valid.")
    NOT_CONTROLLER = (41, True, "This broker is not the active controller.")
    INVALID_REQUEST = (42, False, "The request is malformed, or cannot be handled as asked.")
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43, False,
        "The message format of this partition's log does not support the request.")
    POLICY_VIOLATION = (44, False, "The parameters of the request do not satisfy the configured policy.")
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45, False,
        "The sequence number of the batch does not follow the last one of this producer.")
    DUPLICATE_SEQUENCE_NUMBER = (46, False, "A batch with this sequence number was stored before.")
    INVALID_PRODUCER_EPOCH = (47, False, "The producer epoch is older than the current one.")
    INVALID_TXN_STATE = (48, False, "The transaction is not in a state that allows this operation.")
    INVALID_PRODUCER_ID_MAPPING = (49, False, "The producer id does not belong to this transactional id.")
    INVALID_TRANSACTION_TIMEOUT = (50, False, "The transaction timeout is larger than transaction.max.timeout.ms.")
    CONCURRENT_TRANSACTIONS = (51, True, "Another operation on this transaction is still running.")
    TRANSACTION_COORDINATOR_FENCED = (
        52, False,
        "The transaction coordinator that sent this marker is no longer the current one.")
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, False, "Access to the transactional id is not authorised.")
    SECURITY_DISABLED = (54, False, "Security features are disabled.")
    OPERATION_NOT_ATTEMPTED = (55, False, "The operation was not tried, because another of the same request failed.")
    KAFKA_STORAGE_ERROR = (56, True, "A disk error occurred where the partition's log is stored.")
    LOG_DIR_NOT_FOUND = (57, False, "The log directory is not known to this broker.")
    SASL_AUTHENTICATION_FAILED = (58, False, "SASL authentication failed.")
    UNKNOWN_PRODUCER_ID = (
        59, False,
        "The broker has no state of this producer: its records are gone, or the id is not valid.")
    REASSIGNMENT_IN_PROGRESS = (60, False, "A reassignment of this partition is under way.")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, False, "Delegation tokens are not enabled.")
    DELEGATION_TOKEN_NOT_FOUND = (62, False, "The delegation token does not exist.")
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, False, "The principal is neither owner nor renewer of the delegation token.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, False, "Delegation token requests are not allowed on this connection.")
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, False, "The delegation token operation is not authorised.")
    DELEGATION_TOKEN_EXPIRED = (66, False, "The delegation token has expired.")
    INVALID_PRINCIPAL_TYPE = (67, False, "The principal type is not supported.")
    NON_EMPTY_GROUP = (68, False, "The group is not empty.")
    GROUP_ID_NOT_FOUND = (69, False, "The group id does not exist.")
    FETCH_SESSION_ID_NOT_FOUND = (70, True, "The fetch session does not exist.")
    INVALID_FETCH_SESSION_EPOCH = (71, True, "The fetch session epoch is not the expected one.")
    LISTENER_NOT_FOUND = (72, True, "The leader has no listener of the name that the request came in on.")
    TOPIC_DELETION_DISABLED = (73, False, "Topic deletion is disabled.")
    FENCED_LEADER_EPOCH = (74, True, "The leader epoch of the request is older than the broker's.")
    UNKNOWN_LEADER_EPOCH = (75, True, "The leader epoch of the request is newer than the broker's.")
    UNSUPPORTED_COMPRESSION_TYPE = (76, False, "The client does not support the compression of this partition.")
    STALE_BROKER_EPOCH = (77, False, "The broker epoch has changed: the broker was restarted.")
    OFFSET_NOT_AVAILABLE = (
        78, True,
        "The leader's high watermark has not yet caught up after its election: ask again.")
    MEMBER_ID_REQUIRED = (79, False, "The group needs a valid member id before the member joins.")
    PREFERRED_LEADER_NOT_AVAILABLE = (80, True, "The preferred leader is not available.")
    GROUP_MAX_SIZE_REACHED = (81, False, "The group has reached its largest size.")
    FENCED_INSTANCE_ID = (82, False, "Another member took over this static instance id.")
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, True, "No eligible replica is available as leader.")
    ELECTION_NOT_NEEDED = (84, True, "No leader election is needed for this partition.")
    NO_REASSIGNMENT_IN_PROGRESS = (85, False, "No reassignment of this partition is under way.")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, False, "The group is subscribed to the topic, so its offsets cannot be deleted.")
    INVALID_RECORD = (87, False, "The broker found a record of the batch not valid.")
    UNSTABLE_OFFSET_COMMIT = (88, True, "There are offsets whose transaction has not ended yet.")
    THROTTLING_QUOTA_EXCEEDED = (89, True, "The quota of requests is used up: wait.")
    PRODUCER_FENCED = (90, False, "A newer producer with the same transactional id fenced this one.")
    RESOURCE_NOT_FOUND = (91, False, "The request names a resource that does not exist.")
    DUPLICATE_RESOURCE = (92, False, "The request names the same resource twice.")
    UNACCEPTABLE_CREDENTIAL = (93, False, "The credential does not satisfy the rules for credentials.")
    INCONSISTENT_VOTER_SET = (94, False, "One of the set of voters is not among the expected ones.")
    INVALID_UPDATE_VERSION = (95, False, "The update version of the feature is not valid.")
    FEATURE_UPDATE_FAILED = (96, False, "The finalized features could not be updated.")
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, False, "The forwarded principal could not be read.")
    SNAPSHOT_NOT_FOUND = (98, False, "The snapshot was not found.")
    POSITION_OUT_OF_RANGE = (99, False, "The position is not inside the snapshot.")
    UNKNOWN_TOPIC_ID = (100, True, "This server does not host a topic with this id.")
    DUPLICATE_BROKER_REGISTRATION = (101, False, "The broker id is in use by another broker.")
    BROKER_ID_NOT_REGISTERED = (102, False, "The broker id is not registered.")
    INCONSISTENT_TOPIC_ID = (103, True, "The topic id in the log differs from the one in the request.")
    INCONSISTENT_CLUSTER_ID = (104, False, "The cluster id of the request is not this cluster's.")
    TRANSACTIONAL_ID_NOT_FOUND = (105, False, "The transactional id does not exist.")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, True, "The fetch session mixes requests with and without topic ids.")
    INELIGIBLE_REPLICA = (107, False, "A replica that may not be in the ISR was put into the new ISR.")
    NEW_LEADER_ELECTED = (108, False, "The partition has changed and elected a new leader.")
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, False, "The offset has moved to tiered storage.")
    FENCED_MEMBER_EPOCH = (
        110, False,
        "The member epoch is fenced by the coordinator: abandon the partitions and join again.")
    UNRELEASED_INSTANCE_ID = (111, False, "Another member still holds this instance id: it must leave first.")
    UNSUPPORTED_ASSIGNOR = (112, False, "The group does not support the assignor.")
    STALE_MEMBER_EPOCH = (113, False, "The member epoch is stale: retry with the one from the next heartbeat.")
    MISMATCHED_ENDPOINT_TYPE = (114, False, "The request came to an endpoint of the wrong kind.")
    UNSUPPORTED_ENDPOINT_TYPE = (115, False, "This kind of endpoint is not known.")
    UNKNOWN_CONTROLLER_ID = (116, False, "The controller id is not known.")
    UNKNOWN_SUBSCRIPTION_ID = (117, False, "The telemetry subscription id is not valid any more.")
    TELEMETRY_TOO_LARGE = (118, False, "The telemetry data is larger than the broker accepts.")
    INVALID_REGISTRATION = (119, False, "The controller found the registration not valid.")
    TRANSACTION_ABORTABLE = (120, False, "The transaction must be aborted.")
    INVALID_RECORD_STATE = (121, False, "The acknowledgement does not fit the state of the record.")
    SHARE_SESSION_NOT_FOUND = (122, True, "The share session does not exist.")
    INVALID_SHARE_SESSION_EPOCH = (123, True, "The share session epoch is not valid.")
    FENCED_STATE_EPOCH = (124, False, "The state epoch of the share coordinator is fenced.")
    INVALID_VOTER_KEY = (125, False, "The voter key does not fit that of the receiving replica.")
    DUPLICATE_VOTER = (126, False, "The voter is already one of the voters.")
    VOTER_NOT_FOUND = (127, False, "The voter is none of the voters.")
    # fmt: on


class KafkaError(Exception):
    """An operation failed in a way that has a Kafka error code."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = code.message if message is None else message

    def again(self) -> Self:
        """Return a copy to raise when this error is stored: an error that is raised twice would keep the frames of both, and
        their objects, such as a client's records, alive."""
        return type(self)(self.code, self.message)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"
