"""The segments of a log: files, indexes, copies, exchanges."""
