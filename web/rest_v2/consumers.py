"""Consumer instances in REST v2: make one, say what it reads, read, move, commit, delete.

Rules: all of it needs `barnabas.web.write.enable`: a consumer joins a group and takes partitions from others. An answer with
records has the media type of the consumer's format, and is sent in parts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from fastapi import Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from client.committing import OffsetAndMetadata
from protocol.messages.list_offsets import EARLIEST, LATEST
from runtime.randomness import uuid_bytes
from web.cluster.user_cluster import UserCluster
from web.errors import HttpProblem
from web.messages.patterns import InvalidPattern, compiled
from web.requests import WRITING, Cluster, Parts
from web.rest_v2.errors import FORMAT_MISMATCH, partition_not_found, topic_not_found
from web.rest_v2.forms import EmbeddedFormat, V2Response, accepts, v2_router
from web.rest_v2.instance import ConsumerInstance
from web.rest_v2.instance_settings import instance_settings
from web.rest_v2.models import (
    ConsumedRecord,
    CreatedInstance,
    NamedOffset,
    NewInstance,
    Offsets,
    Partitions,
    SubscribedTopics,
    Subscription,
    TopicPartitionName,
)

router = v2_router("/consumers/{group}", [WRITING])
_RECORDS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Records, in the format of the consumer",
        "content": {
            form.media_type: {"schema": {"type": "array", "items": ConsumedRecord.model_json_schema()}}
            for form in EmbeddedFormat
        },
    }
}


async def instance_of(cluster: Cluster, parts: Parts, group: str, instance: str) -> ConsumerInstance:
    """Return the user's instance of this name. Raises HttpProblem."""
    found = parts.consumers.find(cluster, group, instance)
    await found.use(cluster)
    return found


Instance = Annotated[ConsumerInstance, Depends(instance_of)]


@router.post("", response_model=CreatedInstance)
async def create(cluster: Cluster, parts: Parts, group: str, body: NewInstance | None = None) -> Any:
    name = f"rest-consumer-{UUID(bytes=uuid_bytes(parts.surroundings.randomness))}"
    settings = instance_settings(group, name, body or NewInstance.model_validate({}), parts.settings)
    parts.consumers.create(cluster, settings)
    uri = f"{parts.base_uri}/consumers/{quote(group, safe='')}/instances/{quote(settings.name, safe='')}"
    return V2Response({"instance_id": settings.name, "base_uri": uri})


@router.delete("/instances/{instance}", status_code=204)
async def delete(cluster: Cluster, parts: Parts, group: str, instance: str) -> Response:
    await parts.consumers.delete(cluster, group, instance)
    return Response(status_code=204)


# --- what is read ---


@router.post("/instances/{instance}/subscription", status_code=204)
async def subscribe(found: Instance, body: Subscription) -> Response:
    if (body.topics is None) == (body.topic_pattern is None):
        raise HttpProblem(422, "one of topics and topic_pattern is needed")
    if body.topics is not None:
        await found.subscribe(body.topics)
    else:
        assert body.topic_pattern is not None
        try:
            pattern = compiled(body.topic_pattern)
        except InvalidPattern as error:
            raise HttpProblem(422, str(error)) from None
        await found.subscribe_to_matching(lambda name: pattern.fullmatch(name) is not None)
    return Response(status_code=204)


@router.get("/instances/{instance}/subscription", response_model=SubscribedTopics)
async def subscription(found: Instance) -> Any:
    return V2Response({"topics": found.topics})


@router.delete("/instances/{instance}/subscription", status_code=204)
async def unsubscribe(found: Instance) -> Response:
    await found.unsubscribe()
    return Response(status_code=204)


@router.post("/instances/{instance}/assignments", status_code=204)
async def assign(cluster: Cluster, found: Instance, body: Partitions) -> Response:
    keys = _keys(body.partitions)
    await _require_partitions(cluster, body.partitions)
    await found.assign(keys)
    return Response(status_code=204)


@router.get("/instances/{instance}/assignments", response_model=Partitions)
async def assignments(found: Instance) -> Any:
    rows = [{"topic": topic, "partition": partition} for topic, partition in found.partitions]
    return V2Response({"partitions": rows})


async def _require_partitions(cluster: UserCluster, wanted: Sequence[TopicPartitionName]) -> None:
    """Raises HttpProblem for a partition that there is not: a reader would wait for it."""
    there = await cluster.topics(sorted({each.topic for each in wanted})) if wanted else {}
    for each in wanted:
        if each.topic not in there:
            raise topic_not_found()
        if each.partition not in there[each.topic].partitions:
            raise partition_not_found()


# --- reading ---


@router.get("/instances/{instance}/records", response_class=Response, responses=_RECORDS)
async def read(
    request: Request,
    found: Instance,
    timeout: Annotated[int, Query(description="milliseconds")] = -1,
    max_bytes: Annotated[int, Query(description="of keys and values")] = -1,
) -> Response:
    form = found.settings.form
    if not accepts(request, form):
        text = "The requested embedded data format does not match the deserializer for this consumer instance"
        raise HttpProblem(406, text, number=FORMAT_MISMATCH)
    rows = await found.read(timeout, max_bytes)
    return StreamingResponse(_listed(rows), media_type=form.media_type)


async def _listed(rows: list[bytes]) -> AsyncIterator[bytes]:
    """Yield a list of JSON, each of whose rows is forgotten when it is sent."""
    rows.reverse()
    separator = b"["
    while rows:
        yield separator + rows.pop()
        separator = b",\n"
    yield b"]" if separator != b"[" else b"[]"


@router.post("/instances/{instance}/positions", status_code=204)
async def seek(found: Instance, body: Offsets) -> Response:
    await found.seek({(each.topic, each.partition): each.offset for each in body.offsets})
    return Response(status_code=204)


@router.post("/instances/{instance}/positions/beginning", status_code=204)
async def seek_to_beginning(found: Instance, body: Partitions) -> Response:
    await found.seek_to(EARLIEST, _keys(body.partitions))
    return Response(status_code=204)


@router.post("/instances/{instance}/positions/end", status_code=204)
async def seek_to_end(found: Instance, body: Partitions) -> Response:
    await found.seek_to(LATEST, _keys(body.partitions))
    return Response(status_code=204)


# --- offsets ---


@router.post("/instances/{instance}/offsets", response_model=list[NamedOffset])
async def commit(found: Instance, body: Offsets | None = None) -> Any:
    """Commit that these records have been read, the last of each partition; without a body, what has been read."""
    wanted = None
    if body is not None:
        wanted = {
            (each.topic, each.partition): OffsetAndMetadata(each.offset + 1, metadata=each.metadata or "")
            for each in body.offsets
        }
    await found.commit(wanted)
    return V2Response([])


@router.get("/instances/{instance}/offsets", response_model=Offsets)
async def committed(found: Instance, body: Partitions | None = None) -> Any:
    """What the group has committed. The body of the request names the partitions."""
    if body is None:
        raise partition_not_found()
    rows = await found.committed(_keys(body.partitions))
    return V2Response(
        {
            "offsets": [
                {"topic": topic, "partition": partition, "offset": each.offset, "metadata": each.metadata or ""}
                for (topic, partition), each in sorted(rows.items())
            ]
        }
    )


def _keys(rows: Sequence[TopicPartitionName]) -> list[tuple[str, int]]:
    return list(dict.fromkeys((each.topic, each.partition) for each in rows))
