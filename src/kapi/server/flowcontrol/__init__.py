"""API priority and fairness: which request runs now, which waits, and which is refused when there are too many."""
