"""What each error code means for a member of a group, by the request that it answers. Pure.

A code that a table does not name calls for a repetition where Kafka calls it retriable (`client.remedies`), and is fatal
otherwise; for a commit it is an error of that commit.
Source: Kafka AbstractCoordinator and ConsumerCoordinator with their response handlers; KIP-345, KIP-394.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from client.remedies import Remedy, remedy_of
from protocol.errors import ErrorCode
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
}


def verdict_on(request: type[Request], code: ErrorCode) -> MemberVerdict:
    named = TABLES[request].get(code)
    if named is not None:
        return named
    match remedy_of(code):
        case Remedy.NONE:
            return MemberVerdict.DONE
        case Remedy.FAIL:
            return MemberVerdict.FAIL if request is OffsetCommitRequest else MemberVerdict.FATAL
        case Remedy.FIND_COORDINATOR:
            return MemberVerdict.FIND
        case _:
            return MemberVerdict.REPEAT
