"""Members of share groups, which obey the coordinator, and what they read and acknowledge."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages import share_acknowledge, share_fetch
from protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from protocol.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.share_states import AcknowledgeType
from tests.differential.newer.consumer_groups import group_that_knows
from tests.differential.newer.group_configs import altered
from tests.differential.play import Run

LEAVE = -1
"""The epoch with which a member leaves, and with which a share session is closed."""
GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
Partition = tuple[bytes, int]
"""Id of a topic, and number of a partition."""
Acknowledged = Sequence[tuple[int, int, Sequence[int]]]
"""First offset, last offset, and types."""
WAIT_MS = 10_000
"""For what has to come."""


def beating(group: str, member_id: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group_id=group, member_id=member_id, member_epoch=epoch, **fields)


def joining(group: str, member_id: str, *topics: str, **fields: Any) -> ShareGroupHeartbeatRequest:
    return beating(group, member_id, 0, **{"subscribed_topic_names": list(topics), **fields})


def member_id(run: Run, short: str) -> str:
    """An id of a member, which may have 36 characters at most."""
    made = str(uuid.uuid5(uuid.NAMESPACE_OID, run.name(short)))
    run.names.numbered("uuid", made)
    return made


class ShareMember:
    """`ask` and its like keep the answer, `do` and its like only obey."""

    def __init__(self, run: Run, group: str, short: str, *topics: str, **fields: Any) -> None:
        self.run = run
        self.group = group
        self.topics = topics
        self.fields = fields
        self.member_id = member_id(run, short)
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self.session_epoch = 0
        self.wire = run.connect()
        """Of its session: the broker ends one session with each connection."""

    # --- the group ---

    def request(self, **fields: Any) -> ShareGroupHeartbeatRequest:
        if self.epoch == 0:
            return joining(self.group, self.member_id, *self.topics, **{**self.fields, **fields})
        return beating(self.group, self.member_id, self.epoch, **fields)

    def ask(self, **fields: Any) -> Any:
        return self._obey(self.run.ask(self.request(**fields), 1))

    def do(self, **fields: Any) -> Any:
        return self._obey(self.run.do(self.request(**fields), 1))

    def _obey(self, answer: Any) -> Any:
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = {row.topic_id: sorted(row.partitions) for row in answer.assignment.topic_partitions}
        return answer

    def join(self, *partitions: Partition) -> ShareMember:
        """Beat until it has these partitions: they are made ready first, which takes a moment."""
        wanted: dict[bytes, list[int]] = {}
        for topic_id, index in partitions:
            wanted.setdefault(topic_id, []).append(index)
        self.run.until(f"{self.member_id} has {wanted}", lambda: bool(self.do()) and self.owned == wanted)
        return self

    def leave(self) -> None:
        self.run.do(beating(self.group, self.member_id, LEAVE), 1)

    def come_back(self, *partitions: Partition) -> None:
        """As another process would: leaders forget the share partitions of a group whose last connection is closed."""
        self.wire.close()
        self.wire = self.run.connect()
        self.epoch = self.session_epoch = 0
        self.join(*partitions)

    # --- records ---

    def fetching(
        self,
        *partitions: Partition,
        acknowledged: Mapping[Partition, Acknowledged] | None = None,
        forgotten: Sequence[Partition] = (),
        **fields: Any,
    ) -> ShareFetchRequest:
        """A request of the session's next epoch, which reads `partitions` from now on as well."""
        rows: dict[bytes, list[FetchPartition]] = {}
        wanted = dict.fromkeys([*partitions, *(acknowledged or {})])
        for topic_id, index in wanted:
            batches = [
                share_fetch.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=list(types))
                for first, last, types in (acknowledged or {}).get((topic_id, index), ())
            ]
            row = FetchPartition(partition_index=index, acknowledgement_batches=batches)
            rows.setdefault(topic_id, []).append(row)
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch,
            "max_wait_ms": WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [FetchTopic(topic_id=topic_id, partitions=each) for topic_id, each in rows.items()],
            "forgotten_topics_data": [
                ForgottenTopic(topic_id=topic_id, partitions=[index]) for topic_id, index in forgotten
            ],
        }
        return ShareFetchRequest(**{**values, **fields})

    def ask_fetch(self, *partitions: Partition, **fields: Any) -> Any:
        answer = self.run.ask(self.fetching(*partitions, **fields), self._version(ShareFetchRequest), wire=self.wire)
        return self._next(answer, fields)

    def fetch(self, *partitions: Partition, **fields: Any) -> Any:
        answer = self.run.do(self.fetching(*partitions, **fields), self._version(ShareFetchRequest), wire=self.wire)
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        return self._next(answer, fields)

    def acknowledging(self, acknowledged: Mapping[Partition, Acknowledged], **fields: Any) -> ShareAcknowledgeRequest:
        rows: dict[bytes, list[AcknowledgePartition]] = {}
        for (topic_id, index), batches in acknowledged.items():
            row = AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    share_acknowledge.AcknowledgementBatch(
                        first_offset=first, last_offset=last, acknowledge_types=list(types)
                    )
                    for first, last, types in batches
                ],
            )
            rows.setdefault(topic_id, []).append(row)
        values: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.session_epoch,
            "topics": [AcknowledgeTopic(topic_id=topic_id, partitions=each) for topic_id, each in rows.items()],
        }
        return ShareAcknowledgeRequest(**{**values, **fields})

    def ask_acknowledge(self, acknowledged: Mapping[Partition, Acknowledged], **fields: Any) -> Any:
        request = self.acknowledging(acknowledged, **fields)
        return self._next(self.run.ask(request, self._version(ShareAcknowledgeRequest), wire=self.wire), fields)

    def acknowledge(self, acknowledged: Mapping[Partition, Acknowledged], **fields: Any) -> Any:
        request = self.acknowledging(acknowledged, **fields)
        answer = self.run.do(request, self._version(ShareAcknowledgeRequest), wire=self.wire)
        assert answer.error_code == 0, (ErrorCode(answer.error_code).name, answer.error_message)
        return self._next(answer, fields)

    def _version(self, api: type[ShareFetchRequest | ShareAcknowledgeRequest]) -> int:
        return self.run.version if self.run.case.api is api else api.max_version

    def _next(self, answer: Any, fields: Mapping[str, Any]) -> Any:
        if answer.error_code == 0 and "share_session_epoch" not in fields:
            self.session_epoch += 1
        return answer


def reading(run: Run, partitions: int = 1, group: str = "g", **settings: str) -> tuple[ShareMember, str, bytes]:
    """A member of a group that begins at the first record, with a topic; setting names are written with underscores."""
    topic = run.topic("t", partitions)
    topic_id = run.last_topic_id
    member = another(run, group_that_knows(run, topic, short=group), "m", topic, partitions, **settings)
    return member, topic, topic_id


def another(run: Run, group: str, short: str, topic: str, partitions: int = 1, **settings: str) -> ShareMember:
    own = {"share.auto.offset.reset": "earliest"}
    own |= {f"share.{name.replace('_', '.')}": value for name, value in settings.items()}
    altered(run, group, own)
    return ShareMember(run, group, short, topic).join(*((run.last_topic_id, index) for index in range(partitions)))
