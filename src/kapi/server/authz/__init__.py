"""Whether they may."""
