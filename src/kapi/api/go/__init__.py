"""Printing and reading values as Go does, for messages and formats that must equal kube-apiserver's.

`text` quotes strings and prints values, `types` names the types of decoded JSON, `durations` and `times` read what
Go's `time` package reads, `addresses` what `net` and `netip` read. Pure functions; Kubernetes' own formats (quantities,
names, selectors) are elsewhere in `kapi.api`.
"""
