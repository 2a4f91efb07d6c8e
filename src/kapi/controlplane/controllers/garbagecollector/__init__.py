"""The garbage collector: what belongs to an owner goes with it, before it, or is let go, as whoever deletes it asks.

Kubernetes' collector keeps a graph of all objects. Here the watch caches know who names whom (`storage.ownerindex`), so
there is none. Read in this order: `metadata` (what is read of an object), `judgement` (how its references stand),
`hearing` (which objects a commit concerns), `collector` (what is done about them), `changes` (how it is written).
"""
