"""Reading records of given partitions, without IO.

committed   which batches a reader of committed records skips
places      records at given offsets
positions   where each partition is read next, and what the answers to fetches mean for it
"""
