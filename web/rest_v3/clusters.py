"""Clusters and brokers: the one cluster of this process, and who is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi.responses import Response

from client.admin import brokers
from web.requests import Cluster, Parts
from web.rest_v3.asked import V3, AskedCluster, answer, id_of, not_found, v3_router
from web.rest_v3.links import Links
from web.rest_v3.resources import BrokerData, BrokerDataList, ClusterData, ClusterDataList

if TYPE_CHECKING:
    from protocol.messages.metadata import MetadataResponse, MetadataResponseBroker

router = v3_router("Cluster (v3)")


@router.get("/clusters", response_model=ClusterDataList)
async def list_clusters(cluster: Cluster, parts: Parts) -> Response:
    """List the clusters: the one that this process is a client of."""
    v3 = AskedCluster(cluster, Links(parts.base_uri, await id_of(cluster)), parts.surroundings.clock)
    found = cluster_data(v3.links, await cluster.run(brokers.cluster()))
    metadata = {"self": f"{parts.base_uri}/v3/clusters", "next": None}
    return answer({"kind": "KafkaClusterList", "metadata": metadata, "data": [found]})


@router.get("/clusters/{cluster_id}", response_model=ClusterData)
async def get_cluster(v3: V3) -> Response:
    """Tell where a cluster's resources are, and who controls it."""
    return answer(cluster_data(v3.links, await v3.user.run(brokers.cluster())))


@router.get("/clusters/{cluster_id}/brokers", response_model=BrokerDataList, tags=["Broker (v3)"])
async def list_brokers(v3: V3) -> Response:
    """List the brokers that are in the cluster."""
    rows = sorted((await v3.user.run(brokers.cluster())).brokers, key=lambda row: row.node_id)
    return v3.collection("KafkaBrokerList", [broker_data(v3.links, row) for row in rows], "brokers")


@router.get("/clusters/{cluster_id}/brokers/{broker_id}", response_model=BrokerData, tags=["Broker (v3)"])
async def get_broker(v3: V3, broker_id: int) -> Response:
    """Tell where a broker is."""
    for row in (await v3.user.run(brokers.cluster())).brokers:
        if row.node_id == broker_id:
            return answer(broker_data(v3.links, row))
    raise not_found(f"Broker {broker_id}")


def cluster_data(links: Links, found: MetadataResponse) -> ClusterData:
    data: ClusterData = {
        "kind": "KafkaCluster",
        "metadata": links.metadata(name=links.name()),
        "cluster_id": links.cluster_id,
        "acls": links.related("acls"),
        "brokers": links.related("brokers"),
        "broker_configs": links.related("broker-configs"),
        "consumer_groups": links.related("consumer-groups"),
        "topics": links.related("topics"),
        "partition_reassignments": links.related("topics", "-", "partitions", "-", "reassignment"),
    }
    if found.controller_id >= 0:
        data["controller"] = links.related("brokers", found.controller_id)
    return data


def broker_data(links: Links, broker: MetadataResponseBroker) -> BrokerData:
    here = ("brokers", broker.node_id)
    return {
        "kind": "KafkaBroker",
        "metadata": links.metadata(*here, name=links.name("broker", broker.node_id)),
        "cluster_id": links.cluster_id,
        "broker_id": broker.node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "configs": links.related(*here, "configs"),
        "partition_replicas": links.related(*here, "partition-replicas"),
    }
