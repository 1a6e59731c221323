"""Histories of the store server: the real server on one machine, real clients on others, and what goes wrong between them."""
