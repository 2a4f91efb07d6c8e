"""`kapi dev`, and what it shares with `kapi run --reload`: a program that is restarted when its files change."""
