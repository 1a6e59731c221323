"""Where a message is stored, what became of its transaction, who has read past it, and which copies of it there are.

stored      a record with its batch, and the partition that is looked through
reading     reads ranges of many partitions in batches, whatever brokers do meanwhile
fates       which transactions were committed, and whose they are
readers     which groups have read past a record
mirrors     which record another cluster has in place of one, by the pairs of offsets of the job `mirror`
tree        records as a tree of copies, in JSON and in lines
"""
