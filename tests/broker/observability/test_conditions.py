"""Since when partitions have no leader, replicas are behind and brokers are gone."""

from __future__ import annotations

from broker.observability.conditions import BROKER_GONE, NO_LEADER, REPLICAS_BEHIND, ConditionTimes
from metadata.image import NO_LEADER as WITHOUT
from metadata.image import BrokerImage, ClusterImage, PartitionImage, TopicImage


def topic(name: str, leader: int = 1, isr: tuple[int, ...] = (1, 2)) -> TopicImage:
    return TopicImage(name, bytes(16), {0: PartitionImage(leader, 0, isr, (1, 2), (), 0, 1)})


def image(*topics: TopicImage, brokers: tuple[int, ...] = (1, 2)) -> ClusterImage:
    return ClusterImage(
        brokers={broker: BrokerImage(broker, {}) for broker in brokers}, topics={each.name: each for each in topics}
    )


def told(times: ConditionTimes) -> dict[tuple[str, str], tuple[int, bool]]:
    return {(row["condition"], row["name"]): (row["since_ms"], row["seen_first"]) for row in times.rows()}


def test_a_condition_has_the_time_of_the_first_image_with_it_and_ends_with_it() -> None:
    times = ConditionTimes()
    times.on_image(image(topic("orders")), 10)
    assert told(times) == {}
    times.on_image(image(topic("orders", isr=(1,))), 20)
    assert told(times) == {(REPLICAS_BEHIND, "orders-0"): (20, False)}
    times.on_image(image(topic("orders", leader=WITHOUT, isr=(1,))), 30)
    assert told(times) == {(REPLICAS_BEHIND, "orders-0"): (20, False), (NO_LEADER, "orders-0"): (30, False)}
    times.on_image(image(topic("orders")), 40)
    assert told(times) == {}
    times.on_image(image(topic("orders", isr=(2,))), 50)
    assert told(times) == {(REPLICAS_BEHIND, "orders-0"): (50, False)}, "it began again"


def test_what_is_so_at_first_sight_may_have_begun_earlier() -> None:
    times = ConditionTimes()
    times.on_image(image(topic("orders", leader=WITHOUT), brokers=(1,)), 10)
    assert told(times) == {(NO_LEADER, "orders-0"): (10, True), (BROKER_GONE, "2"): (10, True)}


def test_a_broker_is_gone_until_it_is_registered_again() -> None:
    times = ConditionTimes()
    same = topic("orders")
    times.on_image(image(same), 10)
    times.on_image(image(same, brokers=(1,)), 20)
    times.on_image(image(same, brokers=(1,)), 30)
    assert told(times) == {(BROKER_GONE, "2"): (20, False)}
    times.on_image(image(same), 40)
    assert told(times) == {}


def test_nothing_is_kept_of_a_topic_that_is_gone() -> None:
    times = ConditionTimes()
    times.on_image(image(topic("orders", leader=WITHOUT)), 10)
    times.on_image(image(), 20)
    assert told(times) == {}
