"""The blocking client, for one process: commands, Spark's tasks.

    cluster_client    asks the broker that a request is for, again while its error may pass
    connection        one connection to a broker
    connections       those of one client
    side_by_side      many brokers at once
    attempts          for how long a call is tried, and what it waits for
    credentials       what a process keeps for its connections: tokens, salted passwords, contexts of TLS
    names             the addresses of a host

Rules: clock, sleep, randomness, and how connections are made are injected. One thread uses a client; what it asks of many
brokers at once, it asks on threads of its own.
"""
