"""`kapi store check`, `repair` and `export`: what is damaged is named, nothing that can be read is lost."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sqlite3

import pytest
from damaged_files import (
    ALL,
    COUNT,
    FRAME,
    contents,
    copy,
    crash_after_compaction,
    flip,
    forget_confirmed,
    frames,
    keys,
    refused,
)
from test_sqlite import DRAFT, opened

from kapi.cli.main import run
from kapi.storage.encryption.providers import AesGcm
from kapi.storage.encryption.storage import EncryptedStorage, ResourceProviders
from kapi.storage.interface import Draft
from kapi.storage.sqlite.mark import read_mark, write_mark
from kapi.storage.sqlite.pages import Pages, Tree
from kapi.storage.sqlite.repair import check, repair
from kapi.storage.sqlite.salvage import salvage


def offset_of(path, key: str) -> int:
    """Where in the database the value of a key is."""
    return (path / "kapi.db").read_bytes().index(b"x" * 700 + b"%dy" % (ALL.index(key) + 1))


def flip_many(path, offset: int) -> None:
    for place in range(offset, offset + 600, 50):
        flip(path / "kapi.db", place)


def state(path) -> tuple[list[str], int]:
    async def scenario():
        async with opened(path) as store:
            page = await store.range("/")
            assert all(entry.value == DRAFT.render(entry.revision) for entry in page.entries)
            return [entry.key for entry in page.entries], store.revision

    return asyncio.run(scenario())


def test_a_whole_store_is_told(tmp_path, crashed, capsys):
    path = copy(crashed, tmp_path)
    before = contents(path)
    assert run(["store", "check", str(path)]) == 0
    assert run(["store", "repair", str(path)]) == 0
    assert capsys.readouterr().out == (f"{path}: the store is whole\n{path}: the store is whole; nothing was changed\n")
    assert contents(path) == before


def test_the_check_names_file_row_key_and_offset(tmp_path, closed, capsys):
    path = copy(closed, tmp_path)
    flip_many(path, offset_of(path, "/006"))
    before = contents(path)
    assert run(["store", "check", str(path)]) == 1
    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "does not match its checksum" in line]
    assert line.startswith("kapi.db, offset ")
    assert line.endswith(f"row {7 << 10}, key /006: the row does not match its checksum")
    offset = int(line.split(",")[1].split()[-1])
    assert before["kapi.db"].index(b"/006", offset) - offset < 20
    assert "lost: /006 (revision 7)" in out
    assert contents(path) == before


def test_a_store_in_use_is_not_touched(tmp_path, capsys):
    async def scenario():
        async with opened(tmp_path / "data"):
            for command in (["check"], ["repair"]):
                assert run(["store", *command, str(tmp_path / "data")]) == 1
                assert "in use by a server" in capsys.readouterr().err

    asyncio.run(scenario())


def test_a_directory_that_does_not_exist_is_an_error(tmp_path, capsys):
    assert run(["store", "check", str(tmp_path / "none")]) == 1
    assert "is not a directory" in capsys.readouterr().err


def test_a_flipped_bit_in_a_value_is_corrected(tmp_path, closed, capsys):
    path = copy(closed, tmp_path)
    flip(path / "kapi.db", offset_of(path, "/006") + 900, bit=5)
    assert "key /006" in refused(path)
    assert run(["store", "check", str(path)]) == 1
    assert "everything that was acknowledged can be read" in capsys.readouterr().out
    before = contents(path)
    assert run(["store", "repair", str(path)]) == 0
    out = capsys.readouterr().out
    assert "one bit of the row was wrong, and is corrected" in out
    assert f"repaired: {COUNT} objects, the next revision is {COUNT + 1}" in out
    assert state(path) == (ALL, COUNT)
    (backup,) = path.glob("damaged-*")
    assert contents(backup) == before


def test_a_lost_object_is_lost_only_if_that_is_accepted(tmp_path, closed, capsys):
    path = copy(closed, tmp_path)
    flip_many(path, offset_of(path, "/006"))
    before = contents(path)
    reserved = read_mark(path).reserved
    assert run(["store", "repair", str(path)]) == 1
    assert "nothing was changed, because acknowledged writes would be lost" in capsys.readouterr().out
    assert contents(path) == before
    assert not list(path.glob("damaged-*"))
    assert run(["store", "repair", "--accept-loss", str(path)]) == 0
    assert "lost: /006 (revision 7)" in capsys.readouterr().out
    found, revision = state(path)
    assert found == [key for key in ALL if key != "/006"]
    # No revision is given out again, and clients that have seen history list again.
    assert revision >= reserved


def test_a_damaged_index_is_built_again_without_loss(tmp_path, closed):
    path = copy(closed, tmp_path)
    content = (path / "kapi.db").read_bytes()
    page = next(start for start in range(4096, len(content), 4096) if content[start] == 10 and content[start + 4] > 9)
    flip(path / "kapi.db", page + 4, bit=1)
    refused(path)
    assert repair(path).objects == COUNT
    assert state(path) == (ALL, COUNT)


def test_a_damaged_root_of_the_table_is_built_again_without_loss(tmp_path, closed):
    path = copy(closed, tmp_path)
    content = (path / "kapi.db").read_bytes()
    page = next(start for start in range(4096, len(content), 4096) if content[start] == 5)
    with (path / "kapi.db").open("r+b") as file:
        file.seek(page)
        file.write(b"\xff" * 4096)
    assert "cannot be read" in "".join(map(str, check(path).damages))
    assert repair(path).objects == COUNT
    assert state(path) == (ALL, COUNT)


def test_a_damaged_leaf_of_the_table_loses_the_objects_on_it_and_no_others(tmp_path, closed, capsys):
    path = copy(closed, tmp_path)
    page = offset_of(path, "/006") // 4096 * 4096
    with (path / "kapi.db").open("r+b") as file:
        file.seek(page)
        file.write(bytes(4096))
    report = check(path)
    assert "/006" in report.lost
    assert len(report.lost) <= 3
    assert run(["store", "export", str(path), str(tmp_path / "out")]) == 1
    assert "lost: /006 (revision 7)\n" in capsys.readouterr().err
    repair(path, accepts_loss=True)
    assert state(path)[0] == [key for key in ALL if key not in report.lost]


def test_a_deletion_is_not_undone(tmp_path):
    path = tmp_path / "data"

    async def scenario():
        async with opened(path) as store:
            for key in ALL:
                await store.put(key, DRAFT, 0)
            await store.delete("/006", 7)
            for number in range(20):
                await store.put(f"/later{number}", DRAFT, 0)

    asyncio.run(scenario())
    (cell,) = [cell for cell in Tree(Pages(path), 3).cells if cell.rowid == (COUNT + 1) << 10]
    row = (path / "kapi.db").read_bytes().index(b"/006", cell.offset)
    for place in (row, row + 3):
        flip(path / "kapi.db", place, bit=3)
    refused(path)
    repair(path)
    assert "/006" not in state(path)[0]
    assert len(state(path)[0]) == COUNT + 19


@pytest.mark.parametrize("number", [0, 0.3, 0.6])
def test_a_damaged_frame_in_the_middle_of_the_log_is_corrected(tmp_path, crashed, number):
    path = copy(crashed, tmp_path)
    flip(path / "kapi.db-wal", 32 + int(number * frames(path)) * FRAME + 777, bit=3)
    refused(path)
    done = repair(path)
    assert (done.objects, done.revision) == (COUNT, COUNT)
    assert state(path) == (ALL, COUNT)


def test_a_damaged_frame_before_a_transaction_that_was_being_written_is_corrected(tmp_path, crashed, capsys):
    path = copy(crashed, tmp_path)
    write_mark(path, read_mark(path)._replace(confirmed=COUNT - 1))
    log = path / "kapi.db-wal"
    content = bytearray(log.read_bytes())
    # The last transaction lacks a sector of its first frame; in an earlier one the checksum of a frame is damaged, in a
    # byte that leaves many ways to correct it.
    content[-FRAME - 2000 : -FRAME - 1488] = b"\x17" * 512
    content[32 + (frames(path) // 2) * FRAME + 19] ^= 0x40
    log.write_bytes(content)
    refused(path)
    assert run(["store", "repair", str(path)]) == 0
    assert "lost" not in capsys.readouterr().out
    assert state(path) == (ALL[:-1], COUNT - 1)


def torn_after_last_but_one(path) -> int:
    """Tear the last transaction; returns the frame that ends the one before."""
    log = path / "kapi.db-wal"
    content = bytearray(log.read_bytes())
    for end in (FRAME + 1488, 1488):
        content[-end - 512 : -end] = b"\x17" * 512
    log.write_bytes(content)
    return frames(path) - 2


def test_the_end_of_a_transaction_is_corrected_in_front_of_one_that_was_being_written(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    forget_confirmed(path)
    flip(path / "kapi.db-wal", 32 + (torn_after_last_but_one(path) - 1) * FRAME + 3, bit=1)
    refused(path)
    repair(path)
    assert state(path)[0] == ALL[:-1]


def test_the_end_of_a_transaction_that_cannot_be_corrected_is_a_loss(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    forget_confirmed(path)
    end = 32 + (torn_after_last_but_one(path) - 1) * FRAME
    for within in (1000, 2000, 3000):
        flip(path / "kapi.db-wal", end + within)
    refused(path)
    assert not check(path).is_complete
    assert not repair(path).revision


def test_a_damaged_header_of_the_log_is_corrected(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    flip(path / "kapi.db-wal", 21)
    refused(path)
    repair(path)
    assert state(path) == (ALL, COUNT)


def test_frames_after_one_that_cannot_be_corrected_are_used(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    forget_confirmed(path)
    with (path / "kapi.db-wal").open("r+b") as file:
        # The page of this frame is written again by later ones.
        file.seek(32 + frames(path) // 3 * FRAME + 24)
        file.write(b"\xee" * 4000)
    refused(path)
    report = check(path)
    assert report.is_complete
    assert repair(path).objects == COUNT
    assert state(path)[0] == ALL


@pytest.mark.parametrize("name", ["kapi.db", "kapi.mark"])
def test_a_missing_file_is_accepted_when_asked(tmp_path, closed, name, capsys):
    path = copy(closed, tmp_path)
    reserved = read_mark(path).reserved
    (path / name).unlink()
    assert run(["store", "check", str(path)]) == 1
    assert f"{name}: the file is missing" in capsys.readouterr().out
    assert run(["store", "repair", str(path)]) == 1
    refused(path)
    assert run(["store", "repair", "--accept-loss", str(path)]) == 0
    found, revision = state(path)
    assert found == ([] if name == "kapi.db" else ALL)
    assert revision >= reserved


def test_the_database_of_another_store_is_accepted_when_asked(tmp_path, closed):
    path = copy(closed, tmp_path)
    asyncio.run(keys(tmp_path / "other"))
    shutil.copy(tmp_path / "other/kapi.mark", path / "kapi.mark")
    assert not check(path).is_complete
    assert not repair(path).revision
    assert repair(path, accepts_loss=True).objects == COUNT
    assert state(path)[0] == ALL


def test_objects_are_exported_as_manifests_that_can_be_applied(tmp_path, capsys):
    path = tmp_path / "data"
    names = {
        "/registry/core/configmaps/default/a": "ConfigMap",
        "/registry/core/namespaces/default": "Namespace",
        "/registry/reservations/x/y": "",
    }

    async def scenario():
        async with opened(path) as store:
            for key, kind in names.items():
                head = f'{{"kind":"{kind}","apiVersion":"v1","metadata":{{"name":"n","uid":"u","resourceVersion":"'
                await store.put(key, Draft(head.encode(), b'"},"data":{"k":"v"}}'), 0)

    asyncio.run(scenario())
    assert run(["store", "export", str(path), str(tmp_path / "out.yaml")]) == 0
    assert capsys.readouterr().err == "exported 2 objects\n"
    documents = [json.loads(part) for part in (tmp_path / "out.yaml").read_text().split("---\n")[1:]]
    assert documents == [
        {"kind": kind, "apiVersion": "v1", "metadata": {"name": "n"}, "data": {"k": "v"}}
        for kind in ("Namespace", "ConfigMap")
    ]
    assert (tmp_path / "out.yaml").stat().st_mode & 0o777 == 0o600
    assert run(["store", "export", str(path), str(tmp_path / "out.yaml")]) == 1
    assert "File exists" in capsys.readouterr().err
    assert run(["store", "export", str(path), "-"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_encrypted_objects_are_exported_with_the_configuration_of_the_server(tmp_path, capsys):
    path, key = tmp_path / "data", "/registry/core/secrets/default/s"
    provider = AesGcm("k", b"0" * 32)

    async def scenario():
        async with opened(path) as store:
            providers = ResourceProviders([(["secrets"], [provider])])
            head = b'{"kind":"Secret","apiVersion":"v1","metadata":{"name":"s","resourceVersion":"'
            await EncryptedStorage(store, providers).put(key, Draft(head, b'"}}'), 0)

    asyncio.run(scenario())
    assert run(["store", "export", str(path), "-"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert f"not exported: {key} is encrypted as" in output.err
    secret = base64.b64encode(b"0" * 32).decode()
    keys = [{"name": "k", "secret": secret}]
    rule = {"resources": ["secrets"], "providers": [{"aesgcm": {"keys": keys}}]}
    config = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [rule]}
    (tmp_path / "config").write_text(json.dumps(config))
    (tmp_path / "config").chmod(0o600)
    options = ["--encryption-provider-config", str(tmp_path / "config")]
    assert run(["store", "export", *options, str(path), "-"]) == 0
    assert json.loads(capsys.readouterr().out.removeprefix("---\n"))["metadata"] == {"name": "s"}


def test_nothing_is_taken_from_a_transaction_that_was_being_written(tmp_path, crashed):
    path = copy(crashed, tmp_path)
    log = path / "kapi.db-wal"
    content = bytearray(log.read_bytes())
    # The first of its two frames lacks a sector, the one that ends it is whole.
    content[-FRAME - 2000 : -FRAME - 1488] = b"\x17" * 512
    log.write_bytes(content)
    found = salvage(path)
    assert list(found.latest) == ALL[:-1]
    assert found.damages == []


def test_every_row_is_read_without_sqlite(tmp_path):
    path = tmp_path / "data"

    async def scenario():
        async with opened(path) as store:
            for number in range(200):
                await store.put(f"/{number:03}", Draft(b"v" * (number * 97), b"w"), 0)
            for number in range(0, 200, 3):
                await store.delete(f"/{number:03}", number + 1)

    asyncio.run(scenario())
    connection = sqlite3.connect(path / "kapi.db")
    rows = connection.execute("SELECT * FROM history ORDER BY position").fetchall()
    connection.close()
    found = salvage(path)
    assert [row for _, row in sorted(found.rows.items())] == rows
    assert (found.damages, found.corrected, found.lost) == ([], [], {})
    assert found.numbers is not None
    assert found.numbers.store == read_mark(path).store


def test_an_older_version_of_a_page_does_not_bring_back_what_was_compacted(tmp_path):
    """Two bytes of a frame are wrong, so it cannot be corrected, and its page is read as it was before."""
    whole = tmp_path / "whole"
    crash_after_compaction(whole)
    wanted = asyncio.run(keys(shutil.copytree(whole, tmp_path / "opened")))
    told = repaired = 0
    for number in range(frames(whole) - 8, frames(whole)):
        path = copy(whole, tmp_path / str(number))
        for place in (200, 3000):
            flip(path / "kapi.db-wal", 32 + number * FRAME - FRAME + 24 + place)
        assert "damaged" in refused(path)
        if repair(path).revision:
            repaired += 1
            assert asyncio.run(keys(path)) == wanted, f"frame {number}"
        else:
            told += 1
    assert told
