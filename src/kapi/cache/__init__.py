"""The watch cache: the latest objects, the events after a revision, and the watchers they go to."""
