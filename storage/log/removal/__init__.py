"""Removes records of one log: the end by truncation, the start by retention and DeleteRecords."""
