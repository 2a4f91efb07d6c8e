"""Functions that reconcilers call on objects: conditions, finalizers, owner references, create or update."""
