"""What waits: the entries of source partitions, and the index on a log from which they are known again. No IO.

entries         one record that waits: when it is due, where its content is, the hash of its id
index_records   the two kinds of records on the log of the index: entries taken in, and entries that are done
delivered_ids   ids that were delivered lately
index           what waits of one source partition, derived from its records alone
"""
