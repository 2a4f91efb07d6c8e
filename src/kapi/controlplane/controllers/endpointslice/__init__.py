"""The endpointslice controller: EndpointSlices of every Service that selects Pods.

`endpoint`, `plan` and `hints` compute what the slices should be and know nothing of the server; `tracker` knows which
slices a Service has; `controller` reconciles.
"""
