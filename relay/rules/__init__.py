"""The rules of the relay: which topics it reads, and where, when and for whom their records are delivered. Pure."""
