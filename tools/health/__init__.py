"""What is wrong with a cluster, from what its brokers say on the wire."""
