"""The cluster image: what requests change in it, and what they leave alone."""

from __future__ import annotations

from metadata import delta
from metadata.image import BrokerEndpoint, BrokerImage, ClusterImage, MetadataCache
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.primitives import ZERO_UUID

ID_A, ID_B = b"a" * 16, b"b" * 16


def state(index: int, leader: int = 1, topic: str = "") -> UpdateMetadataPartitionState:
    return UpdateMetadataPartitionState(
        topic_name=topic,
        partition_index=index,
        controller_epoch=1,
        leader=leader,
        leader_epoch=5,
        isr=[1],
        zk_version=2,
        replicas=[1, 2],
        offline_replicas=[2],
    )


def update(*topics: tuple[str, bytes, list[UpdateMetadataPartitionState]], brokers: int = 1) -> UpdateMetadataRequest:
    return UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        topic_states=[
            UpdateMetadataTopicState(topic_name=name, topic_id=topic_id, partition_states=states)
            for name, topic_id, states in topics
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[UpdateMetadataEndpoint(port=9092, host="h", listener="IN", security_protocol=0)],
                rack=None,
            )
            for broker_id in range(1, brokers + 1)
        ],
    )


def test_a_first_update() -> None:
    image, changes = delta.apply(ClusterImage("c"), update(("a", ID_A, [state(0), state(1)])))
    assert (image.cluster_id, image.controller_id) == ("c", 1)
    assert image.brokers == {1: BrokerImage(1, {"IN": BrokerEndpoint("h", 9092)})}
    assert image.names_by_id == {ID_A: "a"}
    found = image.partition("a", 1)
    assert found is not None
    assert (found.leader, found.leader_epoch, found.isr, found.replicas) == (1, 5, (1,), (1, 2))
    assert (found.offline_replicas, found.partition_epoch) == ((2,), 2)
    assert image.has_leader("a", 0)
    assert not image.has_leader("a", 7)
    assert changes.updated == [("a", 0), ("a", 1)]
    assert changes.brokers_changed
    assert changes.controller_changed


def test_untouched_topics_are_shared() -> None:
    first, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0)]), ("b", ID_B, [state(0)])))
    second, changes = delta.apply(first, update(("b", ID_B, [state(0, leader=2)])))
    assert second.topics["a"] is first.topics["a"]
    assert second.brokers is first.brokers
    assert first.topics["b"].partitions[0].leader == 1
    assert second.topics["b"].partitions[0].leader == 2
    assert not second.has_leader("b", 0)
    assert not changes.brokers_changed


def test_brokers_alone_leave_the_topics() -> None:
    first, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0)])))
    second, changes = delta.apply(first, update(brokers=2))
    assert second.topics is first.topics
    assert sorted(second.brokers) == [1, 2]
    assert changes.updated == []


def test_deletion_takes_the_topic_with_its_last_partition() -> None:
    first, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0), state(1)])))
    second, changes = delta.apply(first, update(("a", ID_A, [state(0, leader=-2)])))
    assert sorted(second.topics["a"].partitions) == [1]
    assert changes.deleted == [("a", 0)]
    third, _ = delta.apply(second, update(("a", ID_A, [state(1, leader=-2)])))
    assert third.topics == {}
    assert third.names_by_id == {}
    again, changes = delta.apply(third, update(("a", ID_A, [state(1, leader=-2)])))
    assert again.topics == {}
    assert changes.deleted == []


def test_a_topic_made_again_has_the_new_id_only() -> None:
    first, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0)])))
    second, _ = delta.apply(first, update(("a", ID_B, [state(0)])))
    assert second.names_by_id == {ID_B: "a"}


def test_requests_without_ids_keep_the_known_one() -> None:
    first, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0)])))
    second, _ = delta.apply(first, update(("a", ZERO_UUID, [state(1)])))
    assert second.names_by_id == {ID_A: "a"}
    assert second.topic_id("a") == ID_A
    assert second.topic_id("missing") == ZERO_UUID


def test_old_versions_are_read() -> None:
    request = UpdateMetadataRequest(
        controller_id=1,
        controller_epoch=1,
        ungrouped_partition_states=[state(0, topic="a"), state(0, topic="b"), state(1, topic="a")],
        live_brokers=[UpdateMetadataBroker(id=1, v0_host="h", v0_port=9)],
    )
    image, _ = delta.apply(ClusterImage(), UpdateMetadataRequest.decode(request.encode(0), 0))
    assert image.brokers[1].endpoints == {"PLAINTEXT": BrokerEndpoint("h", 9)}
    assert image.brokers[1].rack is None
    assert sorted(image.topics["a"].partitions) == [0, 1]
    assert image.names_by_id == {}


def test_the_cache_tells_each_change_until_unsubscribed() -> None:
    cache = MetadataCache("c")
    seen: list[ClusterImage] = []
    cache.subscribe(seen.append)
    image, _ = delta.apply(cache.image, update())
    cache.publish(image)
    cache.unsubscribe(seen.append)
    cache.publish(image)
    assert cache.image is image
    assert seen == [image]


def test_a_topic_with_another_id_is_another_topic() -> None:
    """The deletion of the one before was not heard."""
    image, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0), state(1)])))
    image, changes = delta.apply(image, update(("a", ID_B, [state(0)])))
    assert list(image.topics["a"].partitions) == [0]
    assert image.names_by_id == {ID_B: "a"}
    assert changes.deleted == [("a", 0), ("a", 1)]
    image, changes = delta.apply(image, update(("a", ZERO_UUID, [state(1)])))
    assert list(image.topics["a"].partitions) == [0, 1]
    assert changes.deleted == []


def test_topics_are_forgotten_unless_others_have_taken_their_names() -> None:
    before, _ = delta.apply(ClusterImage(), update(("a", ID_A, [state(0)]), ("b", ID_B, [state(0)])))
    image, changes = delta.without_topics(before, [before.topics["a"]])
    assert list(image.topics) == ["b"]
    assert image.names_by_id == {ID_B: "b"}
    assert changes.deleted == [("a", 0)]
    again, changes = delta.without_topics(image, [before.topics["a"]])
    assert (again, changes.deleted) == (image, [])
    other, _ = delta.apply(image, update(("a", b"c" * 16, [state(0)])))
    assert delta.without_topics(other, [before.topics["a"]])[0] is other


def test_equal_partitions_are_one_object() -> None:
    image, _ = delta.apply(ClusterImage("c"), update(("a", ID_A, [state(0), state(1)]), ("b", ID_B, [state(0, 2)])))
    assert image.partition("a", 0) is image.partition("a", 1)
    assert image.partition("b", 0) != image.partition("a", 0)
