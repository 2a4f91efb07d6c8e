"""Parts that the endpoints, endpointslice and endpointslice-mirroring controllers share.

`pods` reads the fields of Pods and Services that show in endpoints, `index` finds the Services of a Pod, `service` has
the rules for addresses and ports, `portorder` the order of ports, `triggertime` the trigger time annotation.
"""
