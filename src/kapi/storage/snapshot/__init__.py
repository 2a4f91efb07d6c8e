"""Snapshots: the latest version of every key at one revision, independent of the backend that holds it.

`record` is what a snapshot consists of, `file` its format on disk, `shared` reads and writes a store through the
storage contract. The SQLite store is read and written without being opened, in `storage/sqlite/transfer.py`: a snapshot
of a store in use needs no help of the server that uses it.
"""
