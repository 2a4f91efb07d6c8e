"""Where the traffic of Services goes: EndpointSlices and Endpoints, kept from Services, Pods and Nodes.

What should be there is computed by functions that know nothing of the server (`facts`, `desired`, `packing`, `hints`,
`subsets`, `mirrored`); who watches and writes is in `slices`, `lists`, `mirrors` and `own_endpoints`.
"""
