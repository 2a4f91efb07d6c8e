"""The handlers of verbs and sub-resources; `kapi.server.routes` says which URL reaches which."""
