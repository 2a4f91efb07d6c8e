"""The kinds of the group apps, and ReplicationController, which shares their rules."""
