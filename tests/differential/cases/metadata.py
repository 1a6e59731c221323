from __future__ import annotations

from collections.abc import Callable

from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.primitives import ZERO_UUID
from tests.differential.play import Run, case
from tests.protocol.raw_text import RawText


def named(*names: str | None, topic_id: bytes = ZERO_UUID, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name, topic_id=topic_id) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def own_topics(run: Run) -> Callable[[MetadataResponse], None]:
    def pick(answer: MetadataResponse) -> None:
        answer.topics = [topic for topic in answer.topics if (topic.name or "").startswith(run.prefix)]

    return pick


@case(MetadataRequest, "normal")
def one_topic(run: Run) -> None:
    request = named(run.topic("t", 3))
    request.allow_auto_topic_creation = True
    run.ask(request)


@case(MetadataRequest, "normal")
def all_topics(run: Run) -> None:
    run.topic("a")
    run.topic("b", 2)
    topics: list[MetadataRequestTopic] | None = [] if run.version == 0 else None
    run.ask(MetadataRequest(topics=topics), pick=own_topics(run))


@case(MetadataRequest, "normal", "10+")
def by_id(run: Run) -> None:
    run.topic("t", 2)
    # Version 10 and 11 have the field, but only 12 reads it.
    run.ask(named(None, topic_id=run.last_topic_id))


@case(MetadataRequest, "normal", "8+")
def authorized_operations(run: Run) -> None:
    request = named(run.topic())
    request.include_topic_authorized_operations = True
    request.include_cluster_authorized_operations = run.version <= 10
    run.ask(request)


@case(MetadataRequest, "edge", "4+")
def the_metadata_topic_of_quorum_controllers(run: Run) -> None:
    run.ask(named("__cluster_metadata"))


@case(MetadataRequest, "edge")
def a_name_that_is_no_utf8(run: Run) -> None:
    for raw in (b"caf\xe9", b"\xed\xa0\x80", b"\xf0\x9f\x98"):
        run.ask(named(RawText(run.prefix.encode() + raw), create=True))


@case(MetadataRequest, "edge", "1+")
def no_topics(run: Run) -> None:
    run.ask(MetadataRequest(topics=[]))


@case(MetadataRequest, "edge")
def a_topic_twice_beside_a_missing_one(run: Run) -> None:
    name = run.topic()
    if run.version < 4:
        run.ask(named(name, name, create=True))
    else:
        run.ask(named(name, run.name("missing"), name))


@case(MetadataRequest, "edge")
def creates_what_is_missing(run: Run) -> None:
    name = run.name("new")
    first = run.do(named(name, create=True), run.version)
    run.note({"error_code": first.topics[0].error_code, "partitions": len(first.topics[0].partitions)})

    def is_there() -> bool:
        (topic,) = run.do(named(name, create=True), run.version).topics
        run.names.topic_ids.setdefault(topic.topic_id, "<id of new>")
        return bool(topic.error_code == 0)

    run.until("it is there", is_there)
    run.ask(named(name, create=True))


@case(MetadataRequest, "edge")
def an_internal_topic(run: Run) -> None:
    run.group()
    answer = run.do(named("__consumer_offsets", create=True), run.version)
    (topic,) = answer.topics
    run.note({"error_code": topic.error_code, "internal": topic.is_internal, "partitions": len(topic.partitions)})


@case(MetadataRequest, "wrong", "4+")
def missing_and_not_to_be_created(run: Run) -> None:
    run.ask(named(run.name("missing")))


@case(MetadataRequest, "wrong")
def names_that_are_not_allowed(run: Run) -> None:
    for name in ("", ".", "..", "a b", "x" * 250, "ä"):
        run.ask(named(name, create=True))


@case(MetadataRequest, "wrong", "10+")
def unknown_id(run: Run) -> None:
    run.ask(named(None, topic_id=bytes(range(16))))


@case(MetadataRequest, "wrong", "10+")
def neither_name_nor_id(run: Run) -> None:
    run.ask(named(None))


@case(MetadataRequest, "wrong", "10+")
def id_and_name(run: Run) -> None:
    name = run.topic()
    run.ask(named(name, topic_id=run.last_topic_id))


@case(MetadataRequest, "wrong", "12")
def some_by_id_and_some_by_name(run: Run) -> None:
    name = run.topic()
    topics = [MetadataRequestTopic(name=None, topic_id=run.last_topic_id), MetadataRequestTopic(name=name)]
    run.ask(MetadataRequest(topics=topics))


@case(MetadataRequest, "edge")
def a_topic_without_a_leader(run: Run) -> None:
    from tests.differential.cases.topics import creating, new_topic

    name = run.name("gone")
    created = run.do(creating(new_topic(name, -1, -1, {0: [9]}), timeout_ms=100)).topics[0]
    run.names.topic_ids[created.topic_id] = "<id of gone>"
    run.topic("later")  # whoever is told of this one would have been told of the other
    run.ask(named(name))
