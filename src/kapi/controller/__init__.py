"""Controllers: what changes is queued by key, and each key is reconciled until the world is as it should be.

In reading order: `reconcile` is the whole contract with the user, `queue` the promises about keys, `ratelimit` when a
failed key comes back, `predicate`, `enqueue` and `source` turn changes into keys, `controller` runs the workers and
`builder` puts it all together. Needs the base dependencies only.
"""
