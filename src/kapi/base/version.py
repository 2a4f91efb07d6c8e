"""The version of Kapi, where every package can read it."""

VERSION = "0.1.0.dev0"
