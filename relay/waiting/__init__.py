"""What waits: the entries of source partitions, and the index on a log from which they are known again. No IO.

entries         one record that waits: when it is due, where its content is, the hash of its id
index_records   the records on the log of the index: entries taken in, entries that are done, positions
columns         how numbers are kept, on the log as in memory
index           what waits of one source partition, derived from its records alone
run             of it, entries that were taken in together
place_ranges    which runs may have a place
id_table        where the entry with an id is
merging         which runs are written again as one
delivered_ids   ids that were delivered lately
"""
