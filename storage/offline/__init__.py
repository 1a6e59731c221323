"""Reads the files of a data directory without a broker. No broker imports it."""
