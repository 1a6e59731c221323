"""One Kafka client, for everything of ours that speaks to a cluster.

    settings        every name that Kafka's clients and librdkafka have for connections, TLS and logins
    mechanisms      the table of SASL mechanisms: what each needs, and how it logs in
    exchange        what goes out and comes in on one connection
    opening         how a connection begins: versions and login, as steps that a shell carries out
    versions        in which version a request goes to a broker
    throttling      for how long a broker wants no request
    cluster_view    brokers, leaders, the controller, coordinators: whom a request goes to
    remedies        what an error code calls for
    backoff         how long to wait before something is tried again
    attempts        for how long an operation is tried, and with which pauses
    blocking        the shell for commands and Spark
    admin           administration: what an operation asks of which broker, and what the answers mean, as steps for a shell
    error_codes     where a response has its errors
    committing      what is committed for a group, and by whom
    producing       an idempotent, transactional producer, and what each error code means for it
    membership      a member of a classic group, its assignors, and what each error code means for it
    reading         where partitions are read next, and which records a reader of committed ones gets
    letters         headers of records that come later, again, or not at all
    event_loop      the shell on an event loop: connections, a cluster, the producer, the group member, the reader
    reach           why no broker answers at an address

Rules: above `protocol` and `security`, below what speaks to a cluster: brokers, commands, Spark. What decides is pure; the
shells move bytes and wait.
"""
