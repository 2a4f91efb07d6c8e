"""Real etcd clusters on loopback, for tests: members that can be killed, stopped and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from small_disk import SmallDisk

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("KAPI_TEST_ETCD") or ROOT / ".peers/bin/etcd")
"""Built by tests/wire/install; KAPI_TEST_ETCD names another one."""

READY_SECONDS = 60.0


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class EtcdMember:
    """One member: a process and its data."""

    def __init__(self, name: str, directory: Path, client: int, peer: int) -> None:
        self.name = name
        self.directory = directory
        self.client_port = client
        self.peer_port = peer
        self.process: subprocess.Popen[bytes] | None = None
        self.disk: SmallDisk | None = None
        """The disk of its data, if it has one of its own."""
        self.skew = 0
        """Seconds by which its clock is wrong from the next start on."""
        self._delay = directory.with_suffix(".delay")

    @property
    def environment(self) -> dict[str, str]:
        """What makes its clock wrong and its disk slow."""
        return {"KAPI_TEST_CLOCK_SKEW": str(self.skew), "KAPI_TEST_DISK_DELAY": str(self._delay)}

    def slow_down(self, seconds: float) -> None:
        """Make every sync of its log take so much longer, 0 for no more; the cluster must be one that `syncs`."""
        self._delay.write_text(str(round(1000 * seconds)))

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.client_port}"

    @property
    def peer_url(self) -> str:
        return f"http://127.0.0.1:{self.peer_port}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class EtcdCluster:
    """A cluster of one or more members; `options` are further options of etcd. They may have a disk each.

    One that `syncs` waits for the disk, which may be made slow. Others survive no power cut.
    """

    def __init__(
        self,
        size: int = 1,
        options: tuple[str, ...] = (),
        *,
        scheme: str = "http",
        disks: bool = False,
        syncs: bool = False,
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kapi-etcd-"))
        self.options = options if syncs else ("--unsafe-no-fsync", *options)
        self.scheme = scheme
        ports = free_ports(2 * size)
        self.members = [
            EtcdMember(f"m{number}", self.directory / f"m{number}", ports[2 * number], ports[2 * number + 1])
            for number in range(size)
        ]
        if disks:
            for member in self.members:
                member.disk = SmallDisk(member.directory)

    @property
    def endpoints(self) -> str:
        return ",".join(member.endpoint for member in self.members)

    def start(self) -> EtcdCluster:
        for member in self.members:
            self.start_member(member)
        self.wait_ready()
        return self

    def start_member(self, member: EtcdMember) -> None:
        url = f"{self.scheme}://{member.endpoint}"
        command = [
            *(member.disk.prefix if member.disk is not None else ()),
            str(PROGRAM),
            *("--name", member.name, "--data-dir", str(member.directory / "data")),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", member.peer_url, "--initial-advertise-peer-urls", member.peer_url),
            *("--initial-cluster", ",".join(f"{one.name}={one.peer_url}" for one in self.members)),
            # Values of the contract suite are larger than etcd's default of 1.5 MiB.
            *("--log-level", "error", "--max-request-bytes", str(32 << 20)),
            *self.options,
        ]
        with (self.directory / f"{member.name}.log").open("ab") as log:
            environment = {**os.environ, **member.environment}
            member.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def wait_ready(self) -> None:
        """Wait until every running member accepts connections."""
        deadline = time.monotonic() + READY_SECONDS
        for member in self.members:
            while member.is_running:
                try:
                    socket.create_connection(("127.0.0.1", member.client_port), 1).close()
                except OSError:
                    assert time.monotonic() < deadline, self.logs()
                    time.sleep(0.02)
                else:
                    break
            else:
                raise AssertionError(f"etcd ended: {self.logs()}")

    def logs(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.directory.glob("*.log"))

    def kill(self, member: EtcdMember) -> None:
        assert member.process is not None
        member.process.kill()
        member.process.wait()

    def pause(self, member: EtcdMember) -> None:
        assert member.process is not None
        member.process.send_signal(signal.SIGSTOP)

    def resume(self, member: EtcdMember) -> None:
        assert member.process is not None
        member.process.send_signal(signal.SIGCONT)

    def leader(self) -> EtcdMember:
        """The running member that leads, by their own word; wait until there is one."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            for member in self.members:
                if member.is_running and _leads(member):
                    return member
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def close(self) -> None:
        for member in self.members:
            if member.is_running:
                self.kill(member)
            if member.disk is not None:
                member.disk.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _leads(member: EtcdMember) -> bool:
    """Return True if a member says that it leads; one that is stopped says nothing."""
    try:
        with urllib.request.urlopen(f"http://{member.endpoint}/metrics", timeout=1) as page:
            return "\netcd_server_is_leader 1\n" in page.read().decode()
    except OSError:
        return False
