"""Histories of the relay: several processes of it bring what clients produce to its targets, beside brokers that fail."""
