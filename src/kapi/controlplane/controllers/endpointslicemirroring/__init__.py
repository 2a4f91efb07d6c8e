"""The endpointslice-mirroring controller: EndpointSlices of Endpoints that no controller wrote.

`mirror` computes them, `controller` reconciles.
"""
