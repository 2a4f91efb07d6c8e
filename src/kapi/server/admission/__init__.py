"""Admission: plug-ins that may change or refuse a write."""
