"""Who reads what, and how far: consumer groups and their committed offsets.

Why: members of a group must agree on a division of partitions while they come, go and crash, and what they
have committed must outlive all of them.
Invariants: everything here is pure: time, randomness and the reply's address are arguments, and nothing reads
a clock or a file. A request is decided (`Decision`: records to append, replies to send once they are
durable); only `apply` changes what a restart must know; recovery is `apply` over the stored records.

The walk of a request: `coordinator` finds the group → `classic_join`, `classic_session` or `offset_requests`
decide → `classic_rebalance` moves the group between its states → `group_records` gives the bytes to append.
Groups have a `type`; other protocols and the transaction coordinator take their place beside the classic one.
"""
