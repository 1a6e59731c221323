"""Every address and method that Confluent publishes of REST v3 for its REST Proxy is in the OpenAPI description."""

from __future__ import annotations

from tests.web.running import app_client

PUBLISHED = """
get                 clusters
get                 clusters/{cluster_id}
get post delete     clusters/{cluster_id}/acls
post                clusters/{cluster_id}/acls:batch
get                 clusters/{cluster_id}/broker-configs
post                clusters/{cluster_id}/broker-configs:alter
get put delete      clusters/{cluster_id}/broker-configs/{name}
get                 clusters/{cluster_id}/brokers
get                 clusters/{cluster_id}/brokers/{broker_id}
get                 clusters/{cluster_id}/brokers/-/configs
get                 clusters/{cluster_id}/brokers/{broker_id}/configs
post                clusters/{cluster_id}/brokers/{broker_id}/configs:alter
get put delete      clusters/{cluster_id}/brokers/{broker_id}/configs/{name}
get                 clusters/{cluster_id}/brokers/{broker_id}/partition-replicas
get                 clusters/{cluster_id}/consumer-groups
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lag-summary
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lags
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}/lags/{topic_name}/partitions/{partition_id}
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers/{consumer_id}
get                 clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments
get                 clusters/{cluster_id}/topics/-/configs
get post            clusters/{cluster_id}/topics
get patch delete    clusters/{cluster_id}/topics/{topic_name}
get                 clusters/{cluster_id}/topics/{topic_name}/configs
post                clusters/{cluster_id}/topics/{topic_name}/configs:alter
get put delete      clusters/{cluster_id}/topics/{topic_name}/configs/{name}
get                 clusters/{cluster_id}/topics/{topic_name}/partitions
get                 clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}
get                 clusters/{cluster_id}/topics/-/partitions/-/reassignment
get                 clusters/{cluster_id}/topics/{topic_name}/partitions/-/reassignment
get                 clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/reassignment
get                 clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/replicas
get                 clusters/{cluster_id}/topics/{topic_name}/partitions/{partition_id}/replicas/{broker_id}
post                clusters/{cluster_id}/topics/{topic_name}/records
post                clusters/{cluster_id}/topics/{topic_name}/records:batch
"""
ASSIGNMENT = (
    "clusters/{cluster_id}/consumer-groups/{consumer_group_id}/consumers/{consumer_id}/assignments/{topic_name}/partitions/"
    "{partition_id}"
)


async def test_nothing_is_missing_and_nothing_is_made_up() -> None:
    published = {f"/v3/{ASSIGNMENT}": {"get"}}
    for line in PUBLISHED.strip().splitlines():
        *methods, path = line.split()
        published[f"/v3/{path}"] = set(methods)
    async with app_client("127.0.0.1:1") as client:
        paths = (await client.get("/api/openapi.json")).json()["paths"]
    assert {path: set(methods) for path, methods in paths.items() if path.startswith("/v3/")} == published
