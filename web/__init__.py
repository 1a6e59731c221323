"""The web process: a page to look at a cluster, and HTTP to read and write records. A plain client of any Kafka cluster."""
