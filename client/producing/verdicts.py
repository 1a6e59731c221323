"""What each error code means for a producer, by the request that it answers. Pure.

A code that a table does not name calls for a repetition where Kafka calls it retriable (`client.remedies`); what any other
means is in DEFAULTS.
Source: KIP-98, KIP-360, KIP-588, KIP-890; Kafka TransactionManager and its request handlers, Sender.completeBatch."""

from __future__ import annotations

from enum import Enum
from typing import Final

from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import ProduceRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from protocol.schema import Request


class ProducerVerdict(Enum):
    DONE = "done"
    REPEAT = "send the same again"
    FIND = "look for the coordinator, then send the same again"
    SPLIT = "send it again in two halves"
    SEQUENCE_LOST = "the partition does not expect this sequence number"
    FAIL = "the batch fails, and with it the transaction"
    ABORT = "the transaction is to be aborted"
    ABORT_AND_BUMP = "the transaction is to be aborted, and the epoch to be raised behind it"
    FATAL = "this producer may do nothing any more"


_E = ErrorCode
_FENCED: Final = {_E.PRODUCER_FENCED: ProducerVerdict.FATAL, _E.INVALID_PRODUCER_EPOCH: ProducerVerdict.FATAL}
_ABORTABLE: Final = {_E.TRANSACTION_ABORTABLE: ProducerVerdict.ABORT}
_FORGOTTEN: Final = {
    _E.UNKNOWN_PRODUCER_ID: ProducerVerdict.ABORT_AND_BUMP,
    _E.INVALID_PRODUCER_ID_MAPPING: ProducerVerdict.ABORT_AND_BUMP,
}

TABLES: Final[dict[type[Request], dict[ErrorCode, ProducerVerdict]]] = {
    ProduceRequest: {
        _E.DUPLICATE_SEQUENCE_NUMBER: ProducerVerdict.DONE,
        _E.MESSAGE_TOO_LARGE: ProducerVerdict.SPLIT,
        _E.OUT_OF_ORDER_SEQUENCE_NUMBER: ProducerVerdict.SEQUENCE_LOST,
        _E.UNKNOWN_PRODUCER_ID: ProducerVerdict.SEQUENCE_LOST,
        # INVALID_PRODUCER_EPOCH is not here: whether it is fatal is the coordinator's to say (KIP-588).
        _E.PRODUCER_FENCED: ProducerVerdict.FATAL,
        _E.CLUSTER_AUTHORIZATION_FAILED: ProducerVerdict.FATAL,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ProducerVerdict.FATAL,
        _E.UNSUPPORTED_VERSION: ProducerVerdict.FATAL,
    },
    InitProducerIdRequest: _ABORTABLE,
    # One row has the reason, the others were not looked at.
    AddPartitionsToTxnRequest: {_E.OPERATION_NOT_ATTEMPTED: ProducerVerdict.REPEAT} | _ABORTABLE | _FENCED | _FORGOTTEN | {
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ProducerVerdict.FATAL,
        _E.INVALID_TXN_STATE: ProducerVerdict.FATAL,
    },
    AddOffsetsToTxnRequest: _ABORTABLE | _FORGOTTEN | {
        _E.GROUP_AUTHORIZATION_FAILED: ProducerVerdict.ABORT,
    },
    TxnOffsetCommitRequest: _ABORTABLE | {
        _E.REQUEST_TIMED_OUT: ProducerVerdict.FIND,
        _E.GROUP_AUTHORIZATION_FAILED: ProducerVerdict.ABORT,
        _E.TOPIC_AUTHORIZATION_FAILED: ProducerVerdict.ABORT,
        _E.FENCED_INSTANCE_ID: ProducerVerdict.ABORT,
        _E.UNKNOWN_MEMBER_ID: ProducerVerdict.ABORT,
        _E.ILLEGAL_GENERATION: ProducerVerdict.ABORT,
        _E.REBALANCE_IN_PROGRESS: ProducerVerdict.ABORT,
    },
    EndTxnRequest: _ABORTABLE | _FORGOTTEN,
}  # fmt: skip
DEFAULTS: Final[dict[type[Request], ProducerVerdict]] = {
    ProduceRequest: ProducerVerdict.FAIL,
    InitProducerIdRequest: ProducerVerdict.FATAL,
    AddPartitionsToTxnRequest: ProducerVerdict.ABORT,
    AddOffsetsToTxnRequest: ProducerVerdict.FATAL,
    TxnOffsetCommitRequest: ProducerVerdict.FATAL,
    EndTxnRequest: ProducerVerdict.FATAL,
}
"""What an error means that is neither named above nor retriable."""


def verdict_on(request: type[Request], code: ErrorCode) -> ProducerVerdict:
    named = TABLES[request].get(code)
    if named is not None:
        return named
    match remedy_of(code):
        case Remedy.NONE:
            return ProducerVerdict.DONE
        case Remedy.FAIL:
            return DEFAULTS[request]
        case Remedy.FIND_COORDINATOR:
            return ProducerVerdict.FIND
        case _:
            return ProducerVerdict.REPEAT
