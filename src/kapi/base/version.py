"""The version of Kapi, where every room can read it."""

VERSION = "0.1.0.dev0"
