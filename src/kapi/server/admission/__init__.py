"""Rules about operations, asked on every write."""
