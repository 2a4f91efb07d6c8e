"""A controller of Networks: for each object of the kind, a network with one subnet exists in OpenStack Neutron.

In reading order: `kind` has the class, `backend` the contract with what makes networks, `simulated` and `neutron` the
two backends, `sync` one pass over one object, `sweep` what no object names any more. `controller` runs the passes
with the parts of client-go put together by hand, `reconciler` with a manager. `python -m network_controller --help`
starts either.
"""
