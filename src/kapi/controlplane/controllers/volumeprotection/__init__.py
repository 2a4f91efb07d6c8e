"""Protection of storage objects in use: a finalizer on each, which is removed when nothing uses the object any more.

Admission adds the finalizers to new objects (`server.admission.inuse`). The controllers here add them to older objects
and remove them from objects that are being deleted and are not in use. Three controllers, a module each, share
`protector`.
"""
