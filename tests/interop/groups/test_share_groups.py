"""Real share consumers (KIP-932): what each acknowledgement does, locks that run out, members that end, topics that change.

That nothing comes again is shown by records written later: they are the only ones that the next poll gives.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.interop.clients.java_clients import JavaClients
from tests.interop.conftest import need_java
from tests.interop.groups.conftest import NEWEST_JAVA, ShareConsumerOf
from tests.interop.groups.members import Numbers
from tests.interop.groups.share_members import (
    ACCEPT,
    IMPLICIT,
    PATIENCE_S,
    REJECT,
    RELEASE,
    RENEW,
    JavaShareConsumer,
    ShareGroup,
    create_topic,
    polled,
    set_group,
    take,
    values_of,
    write,
)
from tests.oracle.process import wait_until

pytestmark = pytest.mark.interop

Fresh = Callable[[str], str]
LIMIT = 5
"""How often a record is delivered, by default."""
LOCK_MS = 1000
EVERY_CLIENT = pytest.mark.parametrize("client", ["librdkafka", pytest.param("Java", marks=pytest.mark.long)])


@pytest.fixture
def topic(newer: str, fresh: Fresh) -> str:
    """Of one partition."""
    return create_topic(newer, fresh("t"), 1)


@pytest.fixture
def group(newer: str, fresh: Fresh) -> str:
    """One that begins at the first record of a topic."""
    name = fresh("g")
    set_group(newer, name, auto_offset_reset="earliest")
    return name


@pytest.mark.parametrize("client", ["librdkafka", "Java"])
def test_members_share_each_partition_and_each_record_is_accepted_once(
    newer: str, fresh: Fresh, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    topic = create_topic(newer, fresh("t"), 2)
    with ShareGroup(lambda: share_consumer_of(client, newer, group, topic)) as members:
        with Numbers(newer, topic, 1000) as numbers:
            first = members.join()
            for _ in range(3):
                members.join()
            assert wait_until(lambda: all(member.delivered for member in members.members), PATIENCE_S)
            members.leave(first)
        members.wait_until_delivered(numbers.acknowledged)
    delivered = members.delivered()
    assert sorted(int(record.value) for record in delivered) == sorted(numbers.acknowledged)
    assert {record.count for record in delivered} == {1}
    assert members.accepted() == Counter(record.place for record in delivered)


@EVERY_CLIENT
def test_implicitly_accepted_records_do_not_come_again(
    newer: str, topic: str, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    write(newer, topic, range(10))
    consumer = share_consumer_of(client, newer, group, topic, mode=IMPLICIT)
    assert values_of(polled(consumer)) == [str(value) for value in range(10)]
    write(newer, topic, ["more"])
    assert values_of(polled(consumer)) == ["more"]
    assert consumer.commit() == {(topic, 0): None}
    consumer.close()
    write(newer, topic, ["end"])
    other = share_consumer_of(client, newer, group, topic)
    assert values_of(take(other)) == ["end"]
    other.close()


@EVERY_CLIENT
def test_released_records_come_again_up_to_the_limit_and_rejected_ones_never(
    newer: str, topic: str, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    write(newer, topic, ["good", "again", "bad"])
    consumer = share_consumer_of(client, newer, group, topic)
    counts: list[int] = []
    records = polled(consumer)
    assert values_of(records) == ["good", "again", "bad"]
    for record, kind in zip(records, (ACCEPT, RELEASE, REJECT), strict=True):
        consumer.acknowledge([record], kind)
        counts.append(record.count)
    assert consumer.commit() == {(topic, 0): None}
    for _ in range(LIMIT - 1):
        (record,) = polled(consumer)
        assert record.value == "again"
        consumer.acknowledge([record], RELEASE)
        counts.append(record.count)
        assert consumer.commit() == {(topic, 0): None}
    write(newer, topic, ["end"])
    assert values_of(take(consumer)) == ["end"]
    assert counts == [1, 1, 1, 2, 3, 4, 5]
    consumer.close()


@EVERY_CLIENT
def test_a_record_whose_lock_has_run_out_comes_to_another_member(
    newer: str, topic: str, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    """That acknowledges the second of two only, so that the group still knows of both."""
    set_group(newer, group, record_lock_duration_ms=LOCK_MS)
    write(newer, topic, ["one", "two"])
    slow, quick = (share_consumer_of(client, newer, group, topic) for _ in range(2))
    held = polled(slow)
    again = polled(quick)
    assert [(record.place, record.count) for record in again] == [(record.place, 2) for record in held]
    quick.acknowledge(again[:1], RELEASE)
    quick.acknowledge(again[1:], ACCEPT)
    assert quick.commit() == {(topic, 0): None}
    slow.acknowledge(held, ACCEPT)
    assert slow.commit() == {(topic, 0): "INVALID_RECORD_STATE"}
    slow.close()
    assert [(record.value, record.count) for record in take(quick)] == [("one", 3)]
    quick.close()


@EVERY_CLIENT
def test_what_a_member_holds_is_free_once_it_has_left(
    newer: str, topic: str, group: str, share_consumer_of: ShareConsumerOf, client: str
) -> None:
    write(newer, topic, range(3))
    leaver, stayer = (share_consumer_of(client, newer, group, topic) for _ in range(2))
    held = polled(leaver)
    leaver.acknowledge(held[:1], ACCEPT)
    leaver.close()  # sends the one acknowledgement
    left = take(stayer, 2)
    assert [(record.value, record.count) for record in left] == [("1", 2), ("2", 2)]
    stayer.close()


@pytest.mark.oracle
@pytest.mark.long
def test_what_a_killed_member_held_is_free_before_its_locks_run_out(
    newer: str,
    topic: str,
    group: str,
    share_consumer_of: ShareConsumerOf,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Its connection has ended. The locks are for 30 s."""
    need_java()
    write(newer, topic, range(3))
    with JavaClients(NEWEST_JAVA, tmp_path_factory.mktemp("java") / "log", "ShareClients") as jvm:
        killed = JavaShareConsumer(jvm, newer, group, [topic], "explicit")
        held = polled(killed)
        assert killed.ask("lock timeout") == 30_000
    other = share_consumer_of("librdkafka", newer, group, topic)
    left = take(other, len(held))
    assert [(record.value, record.count) for record in left] == [(record.value, 2) for record in held]
    other.close()


@pytest.mark.oracle
def test_a_renewed_lock_holds(newer: str, topic: str, group: str, share_consumer_of: ShareConsumerOf) -> None:
    """While its lock would have run out several times, the other member gets only what is written later."""
    set_group(newer, group, record_lock_duration_ms=LOCK_MS)
    write(newer, topic, ["held"])
    holder, other = (share_consumer_of("Java", newer, group, topic) for _ in range(2))
    held = polled(holder)
    seen: list[str] = []
    end, written = time.monotonic() + 3 * LOCK_MS / 1000, 0
    while time.monotonic() < end:
        holder.acknowledge(held, RENEW)
        assert holder.commit() == {(topic, 0): None}
        write(newer, topic, [written])
        written += 1
        seen += values_of(take(other))
        assert other.commit() == {(topic, 0): None}
        assert values_of(holder.poll(100)) == ["held"]  # what is renewed is given again
    assert seen == [str(number) for number in range(written)]
    holder.acknowledge(held, ACCEPT)
    assert holder.commit() == {(topic, 0): None}
    holder.close()
    other.close()
