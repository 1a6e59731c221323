"""Why a command waits: whether its brokers are reached, and what the cluster lacks, told on one line."""
