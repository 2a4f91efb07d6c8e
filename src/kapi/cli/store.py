"""`kapi store`: take and restore snapshots of stores; examine, repair and export one that no server uses.

The implementation is imported when a command runs.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kapi.cli.command import Command, Group, Parser, add_flag, reason
from kapi.cli.snapshot import check_etcd, check_snapshot, commands
from kapi.storage.etcd.address import SCHEME

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

    from kapi.storage.sqlite.repair import Report
    from kapi.storage.sqlite.salvage import Salvage

    Decrypt = Callable[[str, bytes, int], bytes]

_DAMAGED: Final = 1
_SYSTEM_FIELDS: Final = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink")
"""Metadata that the server sets. A manifest that has them cannot be created again."""
_FIRST: Final = ("/registry/core/namespaces/", "/registry/apiextensions.k8s.io/customresourcedefinitions/")
"""Objects that others need."""


def _add_directory(parser: Parser) -> None:
    parser.add_argument("directory", type=Path, metavar="DIR", help="the data directory, or a copy of it")


def _add_check(parser: Parser) -> None:
    parser.add_argument(
        "place",
        metavar="DIR|FILE|etcd://ADDRESS",
        help="the data directory, a copy of it, a snapshot, or a store in etcd, which servers may be using",
    )


def _add_repair(parser: Parser) -> None:
    _add_directory(parser)
    add_flag(
        parser, "--accept-loss", help="repair also if data is lost; also to begin anew when the database is missing"
    )


def _add_export(parser: Parser) -> None:
    _add_directory(parser)
    parser.add_argument("file", metavar="FILE", help="the file to write, which must not exist; - for standard output")
    parser.add_argument(
        "--encryption-provider-config",
        type=Path,
        metavar="FILE",
        help="the EncryptionConfiguration of the server, if objects are stored encrypted",
    )


def _check(arguments: Namespace) -> int:
    from kapi.storage.sqlite.repair import check

    path = Path(arguments.place)
    if arguments.place.startswith(SCHEME):
        return _guarded(lambda: check_etcd(arguments.place))
    return _guarded(lambda: check_snapshot(path) if path.is_file() else _print_report(check(path), path))


def _repair(arguments: Namespace) -> int:
    return _guarded(lambda: _repair_and_print(arguments.directory, accepts_loss=arguments.accept_loss))


def _export(arguments: Namespace) -> int:
    config = arguments.encryption_provider_config
    return _guarded(lambda: _write_export(arguments.directory, arguments.file, config))


def _guarded(run: Any) -> int:
    """Run a command; a store that cannot be used is one line on standard error."""
    from kapi.storage.interface import StorageDamaged, StorageUnavailable

    try:
        status: int = run()
    except (StorageUnavailable, StorageDamaged, OSError, ValueError) as error:
        sys.stderr.write(f"kapi: {reason(error)}\n")
        return _DAMAGED
    return status


def _print_report(report: Report, directory: Path) -> int:
    _print_damages(report)
    if not report.damages:
        sys.stdout.write(f"{directory}: the store is whole\n")
        return 0
    if report.is_complete:
        sys.stdout.write(
            f"everything that was acknowledged can be read; repair it with: kapi store repair {directory}\n"
        )
    else:
        sys.stdout.write(
            f"to save what can be read: kapi store export {directory} FILE;"
            f" to repair it: kapi store repair {directory}, with --accept-loss if that says that data is lost\n"
        )
    return _DAMAGED


def _print_damages(report: Report) -> None:
    for damage in report.damages:
        sys.stdout.write(f"{damage}\n")
    for key, position in report.lost.items():
        sys.stdout.write(f"lost: {key} (revision {position >> 10})\n")


def _repair_and_print(directory: Path, *, accepts_loss: bool) -> int:
    from kapi.storage.sqlite.repair import repair

    done = repair(directory, accepts_loss=accepts_loss)
    _print_damages(done.before)
    if not done.before.damages:
        sys.stdout.write(f"{directory}: the store is whole; nothing was changed\n")
        return 0
    if not done.revision:
        sys.stdout.write(
            "nothing was changed, because acknowledged writes would be lost. Restore a backup, export what is whole:"
            f" kapi store export {directory} FILE, or accept the loss: kapi store repair --accept-loss {directory}\n"
        )
        return _DAMAGED
    sys.stdout.write(
        f"repaired: {done.objects} objects, the next revision is {done.revision + 1};"
        f" the files as they were found are in {done.backup}\n"
    )
    return 0


def _write_export(directory: Path, file: str, config: Path | None) -> int:
    from kapi.storage.sqlite.repair import read_whole

    decrypt = _decryption(config)
    found = read_whole(directory)
    if file == "-":
        failed = _write_manifests(found, decrypt, sys.stdout)
    else:
        # The manifests hold Secrets.
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as target:
            failed = _write_manifests(found, decrypt, target)
    lost = [f"lost: {key} (revision {position >> 10})" for key, position in found.lost_objects.items()]
    for line in (*lost, *failed):
        sys.stderr.write(f"{line}\n")
    return _DAMAGED if lost or failed else 0


def _decryption(config: Path | None) -> Decrypt:
    """The function that decrypts a value, given its key and revision."""
    from kapi.storage.encryption.storage import ResourceProviders, decrypted_value

    if config is None:
        return partial(decrypted_value, ResourceProviders([]))
    from kapi.controlplane.encryption import read_encryption

    return partial(decrypted_value, read_encryption(config))


def _write_manifests(found: Salvage, decrypt: Decrypt, target: Any) -> list[str]:
    """Write each object as one line of JSON, which is YAML too, first those that others need; returns what failed."""
    import msgspec

    from kapi.storage.interface import StorageDamaged
    from kapi.storage.keys import RESERVATIONS, ROOT

    failed = []
    latest = found.latest
    keys = [key for key in latest if key.startswith(ROOT) and not key.startswith(f"{ROOT}{RESERVATIONS}/")]
    for key in sorted(keys, key=lambda key: (not key.startswith(_FIRST), key)):
        position, _, _, value, _ = latest[key]
        try:
            manifest = msgspec.json.decode(decrypt(key, value or b"null", position >> 10))
        except StorageDamaged as error:
            failed.append(f"not exported: {error}")
            continue
        for name in _SYSTEM_FIELDS:
            manifest["metadata"].pop(name, None)
        target.write(f"---\n{msgspec.json.encode(manifest).decode()}\n")
    sys.stderr.write(f"exported {len(keys) - len(failed)} objects\n")
    return failed


STORE: Final = Group(
    "store",
    "Take and restore snapshots of a store, examine and repair it",
    (
        *commands(_guarded),
        Command(
            "check",
            "Say what is damaged, with file, key and offset; changes nothing",
            _add_check,
            _check,
            "DIR|FILE|etcd://ADDRESS",
        ),
        Command("repair", "Repair a damaged store, after a copy of its files", _add_repair, _repair, "[OPTION...] DIR"),
        Command("export", "Write every whole object as a manifest", _add_export, _export, "[OPTION...] DIR FILE"),
    ),
)
