"""The client on an event loop.

    connection, connector, settings   one connection, how it is opened, and by which settings
    broker_client                     one broker: connects when there is something to send
    cluster_client                    one cluster: administration, who leads and coordinates what; a service begins with it
    producer, group_member, reader    the shells of `client.producing`, `client.membership` and `client.reading`
    place_reader                      single records by their places, many at a time
    whole_log                         a partition up to the end that it has now

Rules: the network is injected (`runtime.network.transport`), so that it runs in the simulation; time is the loop's, and
chance the caller's.
"""
