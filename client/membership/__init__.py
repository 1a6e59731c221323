"""A member of a group as a state machine without IO; `client.event_loop.group_member` is its shell.

contract    settings, phases, and what the application is told: the same for both kinds of members
classic     a member of a classic group: joining, syncing, heartbeats, revocation, deadlines
consumer    a member of a consumer group (KIP-848): heartbeats, reconciliation, fencing, deadlines
assignors   who gets which partitions in a classic group, and the bytes in which members tell it each other
verdicts    what each error code of each request means for a member
"""
