"""PodSecurity: the Pod Security Standards, enforced, audited and warned about by labels of namespaces."""
