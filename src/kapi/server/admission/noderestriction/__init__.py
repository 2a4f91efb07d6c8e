"""NodeRestriction: a kubelet writes only its own Node, the Pods on it, and what belongs to both."""
