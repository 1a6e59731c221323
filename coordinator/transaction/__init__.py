"""Transactions: the pure state machine of one partition of `__transaction_state`, and what it needs from outside."""
