"""The garbage collector: deletes dependents with their owner (background), before it (foreground), or orphans them.

Kubernetes' collector builds a graph of all objects. Here the watch caches index the owners that objects name
(`cache.ownerindex`), so there is none. Read in this order: `metadata` (what is read of an object), `references` (the
classification of its owner references), `tracker` (which objects a commit affects), `collector` (the reconciler),
`latedependents` (when it waits), `operations` (its writes).
"""
