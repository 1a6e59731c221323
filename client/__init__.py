"""One Kafka client, for everything of ours that speaks to a cluster.

settings    every name that Kafka's clients and librdkafka have for connections, TLS and logins; one table of mechanisms

Rules: above `protocol` and `security`, below whoever speaks to a cluster: brokers, commands, Spark.
"""
