"""Settings of topics, of brokers, and those that all brokers have: list, get, set, reset, and alter many at once.

Rules: a setting that a topic or a broker does not know is 404, as nothing can be done with it. Those of all brokers are only
what was set: others can be set, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.responses import Response, StreamingResponse
from pydantic_core import to_json

from client.admin import brokers, configs, topics
from client.admin.configs import ALL_BROKERS, Resource, ResourceKind, SettingSource
from web.requests import WRITING
from web.rest_v3.asked import V3, AskedCluster, answer, done, invalid, not_found, outcome, v3_router
from web.rest_v3.bodies import AlterConfigsRequest, UpdateConfigRequest
from web.rest_v3.errors import problem_of
from web.rest_v3.resources import (
    BrokerConfigData,
    BrokerConfigDataList,
    ClusterConfigData,
    ClusterConfigDataList,
    ConfigData,
    TopicConfigData,
    TopicConfigDataList,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from protocol.messages.describe_configs import DescribeConfigsResourceResult
    from web.rest_v3.links import Links, Part

TOPICS_AT_ONCE = 100
router = v3_router("Configs (v3)")
_TOPIC = "/clusters/{cluster_id}/topics/{topic_name}/configs"
_BROKER = "/clusters/{cluster_id}/brokers/{broker_id}/configs"
_CLUSTER = "/clusters/{cluster_id}/broker-configs"


# --- of topics ---


@router.get("/clusters/{cluster_id}/topics/-/configs", response_model=TopicConfigDataList)
async def list_all_topics_configs(v3: V3) -> Response:
    """List the settings of all topics. The answer comes in pieces: it may be large."""
    names = sorted(await v3.user.run(topics.all_topics()))
    pieces = _pieces(v3, names)
    head = await anext(pieces)

    async def content() -> AsyncIterator[bytes]:
        yield head
        async for piece in pieces:
            yield piece

    return StreamingResponse(content(), media_type="application/json")


async def _pieces(v3: AskedCluster, names: list[str]) -> AsyncIterator[bytes]:
    """Give the list in pieces, so that not all of it is in memory. The first comes when the first topics are known: an error
    until then has its status. A topic that is deleted meanwhile is left out."""
    metadata = to_json({"self": v3.links.to("topics", "-", "configs"), "next": None})
    ahead = b'{"kind":"KafkaTopicConfigList","metadata":' + metadata + b',"data":['
    for begin in range(0, len(names), TOPICS_AT_ONCE):
        some = [Resource(ResourceKind.TOPIC, name) for name in names[begin : begin + TOPICS_AT_ONCE]]
        found = await v3.user.run(configs.describe(some, has_synonyms=True))
        rows = [
            row
            for resource, settings in found.items()
            if isinstance(settings, dict)
            for row in _topic_rows(v3, resource.name, settings)
        ]
        yield ahead + to_json(rows)[1:-1]
        if rows:
            ahead = b","
    yield (ahead if ahead != b"," else b"") + b"]}"


@router.get(_TOPIC, response_model=TopicConfigDataList)
async def list_topic_configs(v3: V3, topic_name: str) -> Response:
    """List the settings of a topic, with where each value comes from."""
    settings = await _settings(v3, Resource(ResourceKind.TOPIC, topic_name))
    rows = _topic_rows(v3, topic_name, settings)
    return v3.collection("KafkaTopicConfigList", rows, "topics", topic_name, "configs")


@router.get(_TOPIC + "/{name}", response_model=TopicConfigData)
async def get_topic_config(v3: V3, topic_name: str, name: str) -> Response:
    """Tell a setting of a topic."""
    resource = Resource(ResourceKind.TOPIC, topic_name)
    return answer(_topic_row(v3.links, topic_name, await _setting(v3, resource, name)))


@router.put(_TOPIC + "/{name}", status_code=204, response_class=Response, dependencies=[WRITING])
async def update_topic_config(v3: V3, topic_name: str, name: str, body: UpdateConfigRequest) -> Response:
    """Set a setting of a topic."""
    return await _set(v3, Resource(ResourceKind.TOPIC, topic_name), name, body)


@router.delete(_TOPIC + "/{name}", status_code=204, response_class=Response, dependencies=[WRITING])
async def reset_topic_config(v3: V3, topic_name: str, name: str) -> Response:
    """Give a setting of a topic its default again."""
    return await _reset(v3, Resource(ResourceKind.TOPIC, topic_name), name)


@router.post(_TOPIC + ":alter", status_code=204, response_class=Response, dependencies=[WRITING])
async def alter_topic_configs(v3: V3, topic_name: str, body: AlterConfigsRequest) -> Response:
    """Set and reset settings of a topic: all of them, or none."""
    return await _alter(v3, Resource(ResourceKind.TOPIC, topic_name), body)


# --- of brokers ---


@router.get("/clusters/{cluster_id}/brokers/-/configs", response_model=BrokerConfigDataList)
async def list_all_brokers_configs(v3: V3) -> Response:
    """List the settings of all brokers."""
    ids = sorted(broker.node_id for broker in (await v3.user.run(brokers.cluster())).brokers)
    resources = {_broker(each): each for each in ids}
    found = await v3.user.run(configs.describe(resources, has_synonyms=True))
    rows = [row for each, broker in resources.items() for row in _broker_rows(v3, broker, outcome(found, each))]
    return v3.collection("KafkaBrokerConfigList", rows, "brokers", "-", "configs")


@router.get(_BROKER, response_model=BrokerConfigDataList)
async def list_broker_configs(v3: V3, broker_id: int) -> Response:
    """List the settings of a broker, with where each value comes from."""
    rows = _broker_rows(v3, broker_id, await _settings(v3, await _known_broker(v3, broker_id)))
    return v3.collection("KafkaBrokerConfigList", rows, "brokers", broker_id, "configs")


@router.get(_BROKER + "/{name}", response_model=BrokerConfigData)
async def get_broker_config(v3: V3, broker_id: int, name: str) -> Response:
    """Tell a setting of a broker."""
    resource = await _known_broker(v3, broker_id)
    return answer(_broker_row(v3.links, broker_id, await _setting(v3, resource, name)))


@router.put(_BROKER + "/{name}", status_code=204, response_class=Response, dependencies=[WRITING])
async def update_broker_config(v3: V3, broker_id: int, name: str, body: UpdateConfigRequest) -> Response:
    """Set a setting of a broker."""
    return await _set(v3, await _known_broker(v3, broker_id), name, body)


@router.delete(_BROKER + "/{name}", status_code=204, response_class=Response, dependencies=[WRITING])
async def reset_broker_config(v3: V3, broker_id: int, name: str) -> Response:
    """Give a setting of a broker its default again."""
    return await _reset(v3, await _known_broker(v3, broker_id), name)


@router.post(_BROKER + ":alter", status_code=204, response_class=Response, dependencies=[WRITING])
async def alter_broker_configs(v3: V3, broker_id: int, body: AlterConfigsRequest) -> Response:
    """Set and reset settings of a broker: all of them, or none."""
    return await _alter(v3, await _known_broker(v3, broker_id), body)


# --- of all brokers ---

_ALL = Resource(ResourceKind.BROKER, ALL_BROKERS)


@router.get(_CLUSTER, response_model=ClusterConfigDataList)
async def list_cluster_configs(v3: V3) -> Response:
    """List the settings that were set for all brokers."""
    settings = await _settings(v3, _ALL)
    rows = [_cluster_row(v3.links, settings[name]) for name in sorted(settings)]
    return v3.collection("KafkaClusterConfigList", rows, "broker-configs")


@router.get(_CLUSTER + "/{name}", response_model=ClusterConfigData)
async def get_cluster_config(v3: V3, name: str) -> Response:
    """Tell a setting that was set for all brokers."""
    return answer(_cluster_row(v3.links, await _setting(v3, _ALL, name)))


@router.put(_CLUSTER + "/{name}", status_code=204, response_class=Response, dependencies=[WRITING])
async def update_cluster_config(v3: V3, name: str, body: UpdateConfigRequest) -> Response:
    """Set a setting for all brokers."""
    return await _change(v3, _ALL, {name: _value(name, body.value)})


@router.delete(_CLUSTER + "/{name}", status_code=204, response_class=Response, dependencies=[WRITING])
async def reset_cluster_config(v3: V3, name: str) -> Response:
    """Take back a setting of all brokers."""
    return await _change(v3, _ALL, {name: None})


@router.post(_CLUSTER + ":alter", status_code=204, response_class=Response, dependencies=[WRITING])
async def alter_cluster_configs(v3: V3, body: AlterConfigsRequest) -> Response:
    """Set and take back settings of all brokers: all of them, or none."""
    return await _change(v3, _ALL, _changes(body), validate_only=body.validate_only)


# --- what they share ---


def _broker(broker_id: int) -> Resource:
    return Resource(ResourceKind.BROKER, str(broker_id))


async def _known_broker(v3: AskedCluster, broker_id: int) -> Resource:
    """Raises HttpProblem 404."""
    if all(broker.node_id != broker_id for broker in (await v3.user.run(brokers.cluster())).brokers):
        raise not_found(f"Broker {broker_id}")
    return _broker(broker_id)


async def _settings(v3: AskedCluster, resource: Resource) -> dict[str, DescribeConfigsResourceResult]:
    return outcome(await v3.user.run(configs.describe([resource], has_synonyms=True)), resource)


async def _setting(v3: AskedCluster, resource: Resource, name: str) -> DescribeConfigsResourceResult:
    """Raises HttpProblem 404."""
    settings = await _settings(v3, resource)
    if name not in settings:
        raise not_found(f"Config {name} of {resource.kind.name} {resource.name}".rstrip())
    return settings[name]


async def _set(v3: AskedCluster, resource: Resource, name: str, body: UpdateConfigRequest) -> Response:
    value = _value(name, body.value)
    await _setting(v3, resource, name)
    return await _change(v3, resource, {name: value})


async def _reset(v3: AskedCluster, resource: Resource, name: str) -> Response:
    await _setting(v3, resource, name)
    return await _change(v3, resource, {name: None})


async def _alter(v3: AskedCluster, resource: Resource, body: AlterConfigsRequest) -> Response:
    changes = _changes(body)
    settings = await _settings(v3, resource)
    for name in changes:
        if name not in settings:
            raise not_found(f"Config {name} of {resource.kind.name} {resource.name}")
    return await _change(v3, resource, changes, validate_only=body.validate_only)


async def _change(
    v3: AskedCluster, resource: Resource, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> Response:
    found = await v3.user.run(configs.alter({resource: changes}, validate_only=validate_only))
    error = found[resource]
    if error is not None:
        raise problem_of(error)
    return done()


def _changes(body: AlterConfigsRequest) -> dict[str, str | None]:
    """Return the new values by name, None for those that are reset. Raises HttpProblem 400."""
    changes: dict[str, str | None] = {}
    for each in body.data:
        if each.name in changes:
            raise invalid(f"{each.name} is named twice.")
        changes[each.name] = None if each.operation == "DELETE" else _value(each.name, each.value)
    return changes


def _value(name: str, value: str | None) -> str:
    """Raises HttpProblem 400 for a value that is null."""
    if value is None:
        raise invalid(f"{name} has no value: to reset it, delete it.")
    return value


def _topic_rows(
    v3: AskedCluster, topic: str, settings: Mapping[str, DescribeConfigsResourceResult]
) -> list[TopicConfigData]:
    return [_topic_row(v3.links, topic, settings[name]) for name in sorted(settings)]


def _broker_rows(
    v3: AskedCluster, broker: int, settings: Mapping[str, DescribeConfigsResourceResult]
) -> list[BrokerConfigData]:
    return [_broker_row(v3.links, broker, settings[name]) for name in sorted(settings)]


def _topic_row(links: Links, topic: str, setting: DescribeConfigsResourceResult) -> TopicConfigData:
    resource_name = links.name("topic", topic, "config", setting.name)
    row = _row(links, setting, "KafkaTopicConfig", ("topics", topic, "configs"), resource_name)
    return {**row, "topic_name": topic}


def _broker_row(links: Links, broker: int, setting: DescribeConfigsResourceResult) -> BrokerConfigData:
    resource_name = links.name("broker", broker, "config", setting.name)
    row = _row(links, setting, "KafkaBrokerConfig", ("brokers", broker, "configs"), resource_name)
    return {**row, "broker_id": broker}


def _cluster_row(links: Links, setting: DescribeConfigsResourceResult) -> ClusterConfigData:
    resource_name = links.name("broker-config", setting.name)
    row = _row(links, setting, "KafkaClusterConfig", ("broker-configs",), resource_name)
    return {**row, "config_type": "BROKER"}


def _row(
    links: Links, setting: DescribeConfigsResourceResult, kind: str, parts: tuple[Part, ...], resource_name: str
) -> ConfigData:
    synonyms: Any = setting.synonyms
    return {
        "kind": kind,
        "metadata": links.metadata(*parts, setting.name, name=resource_name),
        "cluster_id": links.cluster_id,
        "name": setting.name,
        "value": setting.value,
        "is_default": setting.config_source == SettingSource.DEFAULT_CONFIG,
        "is_read_only": setting.read_only,
        "is_sensitive": setting.is_sensitive,
        "source": _source(setting.config_source),
        "synonyms": [{"name": each.name, "value": each.value, "source": _source(each.source)} for each in synonyms],
    }


def _source(code: int) -> str:
    known = code in SettingSource._value2member_map_
    return (SettingSource(code) if known else SettingSource.UNKNOWN).name
