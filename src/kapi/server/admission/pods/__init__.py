"""Admission plug-ins for Pods: tolerations, node selectors, runtime classes, image pull policies, resizes."""
