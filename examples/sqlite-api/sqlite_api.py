# ruff: noqa: S608 - names of tables and columns are quoted, and values are always parameters
"""The tables of a SQLite database as resources of Kubernetes: kubectl over a database that you already have.

    python sqlite_api.py library.db

Every table with a primary key of one column becomes a resource: its name the plural, its columns the fields of `spec`,
the key the name of the object. Other programs go on using the database; what they change is seen within a second.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kapi.api.errors import Conflict, Invalid
from kapi.api.fielderror import invalid
from kapi.api.meta import GroupKind, GroupResource
from kapi.api.names import dns_subdomain
from kapi.apiserver import ApiServer, ListOptions, Request, Resource, ServiceReference
from kapi.client import ClientConfig

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Object = dict[str, Any]

GROUP = "db.example.com"
TYPES = {"INTEGER": "integer", "INT": "integer", "REAL": "number", "TEXT": "string", "BOOLEAN": "boolean"}


class Table(NamedTuple):
    """A table: its columns with their types in a schema, those that may not be null, and its primary key."""

    name: str
    key: str
    columns: dict[str, str]
    required: list[str]


def tables(database: Path) -> list[Table]:
    """Return the tables that can be served."""
    found: list[Table] = []
    with sqlite3.connect(database) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        for (name,) in names:
            rows = connection.execute(f"PRAGMA table_info({quoted(name)})").fetchall()
            keys = [column for _, column, _, _, _, is_key in rows if is_key]
            if len(keys) == 1 and name.isalnum() and name.islower():
                columns = {row[1]: TYPES.get(row[2].upper(), "string") for row in rows}
                required = [row[1] for row in rows if row[3] and row[4] is None and not row[5]]
                found.append(Table(name, keys[0], columns, required))
    connection.close()
    return found


def quoted(name: str) -> str:
    """Return a name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def definition(table: Table) -> Object:
    """Return the CustomResourceDefinition that describes a table. It is never sent to a cluster."""
    fields = {name: {"type": kind} for name, kind in table.columns.items() if name != table.key}
    spec: Object = {"type": "object", "properties": fields}
    if table.required:
        spec["required"] = table.required
    schema: Object = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    kind = table.name.capitalize().removesuffix("s")
    columns = [
        {"name": name.capitalize(), "type": one["type"], "jsonPath": f".spec.{name}"} for name, one in fields.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{table.name}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": table.name, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "additionalPrinterColumns": columns,
                    "selectableFields": [{"jsonPath": f".spec.{name}"} for name in fields],
                }
            ],
        },
    }


class Rows(Resource[Object]):
    """The rows of a table. SQLite waits for the disk and for locks, so each function runs in a thread."""

    poll_seconds = 1.0

    def __init__(self, database: Path, table: Table) -> None:
        super().__init__(definition(table))
        self._database = database
        self._table = table
        self._from = quoted(table.name)
        self._where = f"{quoted(table.key)} = ?"

    async def get(self, request: Request, name: str) -> Object | None:
        """Return a row."""
        rows = await self._execute(f"SELECT * FROM {self._from} WHERE {self._where}", [name])
        return self._object(rows[0]) if rows else None

    async def list(self, request: Request, options: ListOptions) -> Iterable[Object]:
        """Return all rows whose key can be the name of an object."""
        rows = await self._execute(f"SELECT * FROM {self._from}", [])
        return [self._object(row) for row in rows if not dns_subdomain(str(row[self._table.key]))]

    async def create(self, request: Request, obj: Object) -> Object:
        """Insert a row."""
        row = self._row(obj)
        names, marks = ", ".join(map(quoted, row)), ", ".join("?" * len(row))
        sql = f"INSERT INTO {self._from} ({names}) VALUES ({marks}) RETURNING *"
        return self._object((await self._execute(sql, list(row.values()), obj))[0])

    async def update(self, request: Request, obj: Object, old: Object) -> Object:
        """Replace a row, if it is still what was read."""
        row = {name: obj["spec"].get(name) for name in self._table.columns if name != self._table.key}
        before = {name: old["spec"].get(name) for name in row}
        assignments = ", ".join(f"{quoted(name)} = ?" for name in row)
        unchanged = "".join(f" AND {quoted(name)} IS ?" for name in before)
        name = obj["metadata"]["name"]
        rows = await self._execute(
            f"UPDATE {self._from} SET {assignments} WHERE {self._where}{unchanged} RETURNING *",
            [*row.values(), name, *before.values()],
            obj,
        )
        if not rows:
            raise Conflict.modified(GroupResource(GROUP, self._table.name), name)
        return self._object(rows[0])

    async def delete(self, request: Request, obj: Object) -> None:
        """Delete a row."""
        await self._execute(f"DELETE FROM {self._from} WHERE {self._where}", [obj["metadata"]["name"]], obj)

    # -- rows and objects -------------------------------------------------------------------------------------------

    def _object(self, row: Object) -> Object:
        spec = {name: value for name, value in row.items() if name != self._table.key and value is not None}
        spec |= {name: bool(value) for name, value in spec.items() if self._table.columns[name] == "boolean"}
        return {"metadata": {"name": str(row[self._table.key])}, "spec": spec}

    def _row(self, obj: Object) -> Object:
        return {self._table.key: obj["metadata"]["name"], **obj["spec"]}

    async def _execute(self, sql: str, values: Sequence[Any], obj: Object | None = None) -> Sequence[Object]:
        try:
            return await asyncio.to_thread(self._query, sql, values)
        except sqlite3.IntegrityError as error:
            # What the database refuses is the client's mistake; its words are those of the table's own constraints.
            assert obj is not None
            kind = GroupKind(GROUP, obj["kind"])
            raise Invalid.of(kind, obj["metadata"]["name"], [invalid("spec", obj["spec"], str(error))]) from None

    def _query(self, sql: str, values: Sequence[Any]) -> Sequence[Object]:
        connection = sqlite3.connect(self._database, timeout=10)
        connection.row_factory = sqlite3.Row
        try:
            with connection:
                return [dict(row) for row in connection.execute(sql, values).fetchall()]
        finally:
            connection.close()


def main(arguments: Sequence[str]) -> int:
    """Serve the tables of a database."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("database", type=Path)
    parser.add_argument("--port", type=int, default=8001)
    parser.add_argument("--kubeconfig", type=Path, help="serve behind this cluster; without it, on loopback, for all")
    parser.add_argument("--service", default="default/sqlite-api", help="the Service in front, as NAMESPACE/NAME")
    parser.add_argument("--service-port", type=int, default=0, help="its port; that of this program if it is not given")
    options = parser.parse_args(arguments)
    resources = [Rows(options.database, table) for table in tables(options.database)]
    if not resources:
        print(f"{options.database} has no table with a primary key of one column", file=sys.stderr)
        return 1
    if options.kubeconfig is None:
        return ApiServer(*resources, port=options.port).run()
    namespace, _, name = options.service.partition("/")
    return ApiServer(
        *resources,
        cluster=ClientConfig.from_kubeconfig(options.kubeconfig),
        port=options.port,
        service=ServiceReference(name, namespace, options.service_port),
        registers=True,
    ).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
