"""Requests: from the socket through the pipeline to the handlers. Read `pipeline.py` first."""
