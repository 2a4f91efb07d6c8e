"""Where objects are kept: one ordered log of writes to keys.

Read `interface` first; it is the contract. `memory` and `sqlite` (with its `sqlite_file`, `sqlite_writer` and
`sqlite_reader`) keep it, and share the change `feed`. `keys` says where an object lies, `compact` decides how much
history stays, `watchcache` serves reads and watches from what the feed delivers. The backends do not know each other.
"""
