"""Administration of any cluster: what an operation asks of which broker, and what the answers mean. Pure.

    steps           a request to a place, and what a shell hands back; the rows of many places, asked again until they stand
    driver          carries steps out, as far as every shell does the same
    scram_users     list, create, delete
    topics          describe, create, delete, more partitions
    configs         settings of topics and brokers, levels of loggers
    groups          list, describe, delete; offsets of a group; members that leave
    offsets         offsets of partitions by time
    transactions    list, describe, producers of partitions, end one that hangs
    replicas        log directories, reassignments, elections, records that are deleted
    acls, quotas    as their names say

Each operation is a generator of steps, which both shells carry out by the one driver: `ClusterClient.run` of `client.blocking`,
`AsyncClusterClient.run` of `client.event_loop`. Results are messages of `protocol`, or KafkaError in their place, by what was
asked for.
"""
