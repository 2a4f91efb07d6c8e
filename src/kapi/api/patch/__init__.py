"""Patches: JSON patch, JSON merge patch, strategic merge patch, and the patches a client computes."""
