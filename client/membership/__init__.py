"""A member of a classic consumer group as a state machine without IO; `client.event_loop.group_member` is its shell.

assignors   who gets which partitions, and the bytes in which members tell it each other
verdicts    what each error code of each request means for a member
member      joining, syncing, heartbeats, revocation, deadlines
"""
