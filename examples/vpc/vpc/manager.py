"""The manager: what the operator runs. `kapi run vpc.manager:setup` runs it on this machine."""

from kapi import Manager

from vpc.generated import COMPONENTS


def setup(manager: Manager) -> None:
    """Add the controllers and webhooks to a manager, and whatever else is to run with them."""
    for add_to in COMPONENTS:
        add_to(manager)
