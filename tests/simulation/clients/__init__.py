"""Clients of a history. Each tells the checkers what it sent and what it was answered, and goes on whatever happens."""
