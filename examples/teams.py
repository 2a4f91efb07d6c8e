"""An operator that reconciles what is no object: a report for each team, whose name is a label of namespaces."""

from dataclasses import dataclass

import kapi
from kapi import Manager, ObjectMeta
from kapi.api.builtin.core_v1 import ConfigMap, Namespace


@dataclass(frozen=True)
class Team:
    name: str


def setup(manager: Manager) -> None:
    def team_of(namespace: Namespace) -> list[Team]:
        name = (namespace.metadata.labels or {}).get("team")
        return [Team(name)] if name else []

    async def reconcile(team: Team) -> None:
        namespaces = await manager.client.list(Namespace, index={"team": team.name})
        report = ConfigMap(
            metadata=ObjectMeta(name=f"team-{team.name}", namespace="default"),
            data={"namespaces": " ".join(one.metadata.name or "" for one in namespaces)},
        )
        await manager.client.apply(report, force=True)

    manager.index(Namespace, "team", lambda namespace: [team.name for team in team_of(namespace)])
    manager.builder(Team).named("teams").watches(Namespace, team_of).complete(reconcile)


if __name__ == "__main__":
    kapi.run(setup)
