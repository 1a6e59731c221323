"""Share groups (KIP-932): members that share the partitions of topics, record by record. Pure."""
