"""The manager with everything that belongs to the operator."""

from kapi.testing import Environment

from vpc.generated import PERMISSIONS
from vpc.manager import setup


async def test_the_operator_starts_with_its_own_role(kapi_environment: Environment) -> None:
    env = kapi_environment
    manager = env.manager(user=await env.user("operator", rules=PERMISSIONS))
    setup(manager)
    async with env.run(manager):
        pass
    refused = [entry for entry in env.history.requests(user="manager") if entry.status == 403]
    assert refused == [], env.history.story()
