"""Brokers: what they tell each other, their versions, features and log directories."""
