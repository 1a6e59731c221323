"""Histories of transactions: transactional producers, processors and read_committed readers, under the same faults."""
