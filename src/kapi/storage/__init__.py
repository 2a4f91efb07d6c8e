"""The store: a multi-version key-value store with one revision counter. It knows keys, bytes and revisions.

Read `interface` first; it is the contract. `memory`, `sqlite` and `etcd` are the backends; they do not know each other
and share the change `feed`, the validation of `operations` and the byte accounting of history (`ledger`).
`revisionslot` is for backends that learn a commit's revision from its answer. `keys` maps objects to keys, `compact`
decides when to compact.
"""
