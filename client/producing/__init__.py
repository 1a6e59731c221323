"""An idempotent, transactional producer as state machines without IO; `client.event_loop.producer` is its shell.

verdicts         what each error code of each request means for a producer
batch            records on their way to one partition
partition_queue  the batches of one partition: order, sequence numbers, how many are in flight
transaction      producer id and epoch, the states of a transaction, the requests to its coordinator
core             the queues and the transaction together
"""
