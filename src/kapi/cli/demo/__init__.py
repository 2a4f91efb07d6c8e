"""The story end to end: a control plane, a kind of one's own, an object of it, and a controller that makes it real."""
