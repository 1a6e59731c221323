"""Reads one log: byte ranges by offset, offsets by timestamp, what is cached and what is not."""
