"""Controllers: changes are queued by key, and each key is reconciled until actual and desired state agree.

In reading order: `reconcile` is the whole contract with the user, `queue` the work queue and its guarantees, `event`,
`predicate`, `enqueue` and `source` turn events into keys, `controller` runs the workers, `builder` assembles a
controller, and `manager` runs several of them with caches and leader election. `objects` has functions that reconcilers
call, `recorder` records Events, `webhook` serves admission and conversion webhooks, `metrics` and `tracing` observe all
of it. Needs the base dependencies only.
"""
