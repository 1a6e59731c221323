"""What each error code means for a member of a group, by the request that it answers. Pure.

A code that a table does not name calls for a repetition where Kafka calls it retriable (`client.remedies`), and is fatal
otherwise; for a commit it is an error of that commit.
Source: Kafka AbstractCoordinator and ConsumerCoordinator with their response handlers; of 4.3.0
AbstractHeartbeatRequestManager and CommitRequestManager; KIP-345, KIP-394, KIP-848.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.schema import Request


class MemberVerdict(Enum):
    DONE = "done"
    REPEAT = "try again"
    FIND = "look for the coordinator, then try again"
    TAKE_ID = "join again with the member id of the answer"
    REJOIN = "the group rebalances: join again"
    LOST = "this generation is over for the member: its partitions are lost"
    UNKNOWN = "the group has forgotten the member: its partitions and its id are lost"
    FAIL = "the request failed, nothing else"
    FATAL = "the member may do nothing any more"


_E = ErrorCode
_OUT: Final = {
    _E.REBALANCE_IN_PROGRESS: MemberVerdict.REJOIN,
    _E.ILLEGAL_GENERATION: MemberVerdict.LOST,
    _E.UNKNOWN_MEMBER_ID: MemberVerdict.UNKNOWN,
    _E.FENCED_INSTANCE_ID: MemberVerdict.FATAL,
}
TABLES: Final[dict[type[Request], dict[ErrorCode, MemberVerdict]]] = {
    JoinGroupRequest: _OUT | {_E.MEMBER_ID_REQUIRED: MemberVerdict.TAKE_ID},
    SyncGroupRequest: _OUT,
    HeartbeatRequest: _OUT,
    OffsetCommitRequest: _OUT | {_E.REQUEST_TIMED_OUT: MemberVerdict.FIND},
    ConsumerGroupHeartbeatRequest: {
        _E.FENCED_MEMBER_EPOCH: MemberVerdict.LOST,
        _E.UNKNOWN_MEMBER_ID: MemberVerdict.LOST,
        _E.TOPIC_AUTHORIZATION_FAILED: MemberVerdict.REPEAT,  # the application hears it, and may be given the right
    },
}
_CONSUMER_COMMIT: Final = {
    _E.STALE_MEMBER_EPOCH: MemberVerdict.REPEAT,  # with the next epoch, as long as the partition is owned
    _E.REQUEST_TIMED_OUT: MemberVerdict.FIND,
}


def verdict_on(request: type[Request], code: ErrorCode) -> MemberVerdict:
    """Return what a code means for the member of a classic group, and a code of ConsumerGroupHeartbeat for that of a
    consumer group."""
    usual = MemberVerdict.FAIL if request is OffsetCommitRequest else MemberVerdict.FATAL
    return TABLES[request].get(code) or _by_remedy(code, usual)


def verdict_on_consumer_commit(code: ErrorCode) -> MemberVerdict:
    """Return what an answer to a commit means for the member of a consumer group: no more than for the commit."""
    return _CONSUMER_COMMIT.get(code) or _by_remedy(code, MemberVerdict.FAIL)


def _by_remedy(code: ErrorCode, otherwise: MemberVerdict) -> MemberVerdict:
    match remedy_of(code):
        case Remedy.NONE:
            return MemberVerdict.DONE
        case Remedy.FAIL:
            return otherwise
        case Remedy.FIND_COORDINATOR:
            return MemberVerdict.FIND
        case _:
            return MemberVerdict.REPEAT
