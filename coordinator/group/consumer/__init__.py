"""Consumer groups (KIP-848): members that heartbeat, for which the coordinator assigns. Pure."""
