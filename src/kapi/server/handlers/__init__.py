"""What each verb and sub-resource does; `kapi.server.routes` says which URL reaches which."""
