"""Confluent's REST v3: the cluster as resources under /v3/clusters, and records that are produced over HTTP.

    links        addresses and names of resources
    errors       what goes wrong, with the error codes of REST v3
    resources    the form of each answer
    bodies       the form of each request
    asked        the cluster that a request names
    clusters, configs, topics, partitions, groups, acls    the endpoints of each kind of resource
    records      produces records: one, many in one request, or a stream that is answered while it comes
    routes       joins them

What is left out: what only Confluent Server has (links between clusters, tasks of brokers, status of replicas), and records
with schemas.
Source: the OpenAPI description that Confluent publishes of its REST Proxy, and the answers of its tests.
"""
