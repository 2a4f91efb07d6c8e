"""A real OpenStack Neutron API server on loopback: SQLite, no Keystone, no message queue, no agents.

    python server.py DIRECTORY PORT [QUOTA]

The schema is created from the models, because Neutron's migrations need MySQL; a second start on the same directory finds what
the first one stored. QUOTA is the number of networks a project may have; by default there is no limit. Needs the packages of
requirements.txt.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

PASTE = """
[composite:neutron]
use = egg:Paste#urlmap
/: versions
/v2.0: api
[composite:api]
use = call:neutron.auth:pipeline_factory
noauth = request_id fake_project_id catch_errors extensions neutronapiapp_v2_0
[app:versions]
paste.app_factory = neutron.pecan_wsgi.app:versions_factory
[app:neutronapiapp_v2_0]
paste.app_factory = neutron.api.v2.router:APIRouter.factory
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:catch_errors]
paste.filter_factory = oslo_middleware:CatchErrors.factory
[filter:fake_project_id]
paste.filter_factory = neutron.auth:NoauthFakeProjectId.factory
[filter:extensions]
paste.filter_factory = neutron.api.extensions:plugin_aware_extension_middleware_factory
"""

# More than 4094 numbers of virtual networks would each become a row, which takes minutes.
CONFIGURATION = """
[DEFAULT]
log_file = {directory}/neutron.log
state_path = {directory}
api_paste_config = {directory}/api-paste.ini
auth_strategy = noauth
core_plugin = ml2
service_plugins =
transport_url = fake://
notify_nova_on_port_status_changes = false
notify_nova_on_port_data_changes = false
dhcp_agent_notification = false
[oslo_concurrency]
lock_path = {directory}/lock
[oslo_messaging_notifications]
driver = noop
[database]
connection = sqlite:///{database}
sqlite_synchronous = false
[quotas]
quota_network = {quota}
quota_subnet = -1
quota_port = -1
[ml2]
type_drivers = local,vxlan
tenant_network_types = vxlan,local
mechanism_drivers =
extension_drivers = port_security
[ml2_type_vxlan]
vni_ranges = 1:4094
"""


def configure(directory: Path, quota: int) -> Path:
    """Write the configuration; returns the path of the database."""
    (directory / "lock").mkdir(parents=True, exist_ok=True)
    database = directory / "neutron.sqlite"
    (directory / "api-paste.ini").write_text(PASTE)
    (directory / "neutron.conf").write_text(CONFIGURATION.format(directory=directory, database=database, quota=quota))
    os.environ.update(OS_NEUTRON_CONFIG_DIR=str(directory), OS_NEUTRON_CONFIG_FILES="neutron.conf")
    return database


def create_schema(database: Path) -> None:
    """Create the tables, in one step: a file that is there is complete."""
    from neutron.db.migration.models import head
    from sqlalchemy import create_engine, event

    unfinished = database.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    engine = create_engine(f"sqlite:///{unfinished}")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    head.get_metadata().create_all(engine)
    engine.dispose()
    unfinished.rename(database)


def main(directory: Path, port: int, quota: int) -> None:
    """Serve until the process is ended."""
    database = configure(directory, quota)
    # Neutron reads the arguments of the program itself.
    sys.argv = ["neutron-api"]
    if not database.exists():
        create_schema(database)
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    import waitress
    from neutron.wsgi.api import application

    # One thread: with more of them most writes fail, because SQLite is locked.
    server = waitress.create_server(application, host="127.0.0.1", port=port, threads=1)
    print("neutron", importlib.metadata.version("neutron"), "at", server.effective_port, flush=True)
    server.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else -1)
