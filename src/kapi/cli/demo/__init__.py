"""`kapi demo`: a control plane, a custom kind, an object of it, and the controller that reconciles it."""
