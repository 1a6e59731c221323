"""What waits in a relay, as people ask for it: derived from the relay's log, without its processes.

log_view    the indexes of source partitions, and how entries ended; pure
figures     how much waits of each source, and when it is due; pure
reading     reads the log, and the contents of entries
finding     finds one message, by its id or its place in the source
"""
