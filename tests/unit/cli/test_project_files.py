"""The files of a project: which changes are seen, and when."""

import asyncio
import os

from kapi.cli.dev.files import ProjectFiles


def changes(root, act):
    """The paths that are reported after `act`, relative to the root."""

    async def main():
        files = ProjectFiles(root)
        act()
        async with asyncio.timeout(60):
            return [str(path.relative_to(root)) for path in await files.changed(interval=0.001)]

    return asyncio.run(main())


def test_changed_added_and_deleted_files_are_reported_together(tmp_path):
    (tmp_path / "config").mkdir()
    (tmp_path / "old.py").write_text("1")
    (tmp_path / "same.py").write_text("1")
    (tmp_path / "config" / "crd.yaml").write_text("a: 1")

    def act():
        (tmp_path / "old.py").unlink()
        (tmp_path / "config" / "crd.yaml").write_text("a: 22")
        (tmp_path / "new.toml").write_text("")

    assert changes(tmp_path, act) == ["config/crd.yaml", "new.toml", "old.py"]


def test_virtual_environments_hidden_folders_and_other_files_do_not_count(tmp_path):
    for folder in (".git", "venv", "__pycache__"):
        (tmp_path / folder).mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")

    def act():
        for name in (".git/a.py", "venv/a.py", "__pycache__/a.py", "a.txt", ".a.py", "seen.py"):
            (tmp_path / name).write_text("1")

    assert changes(tmp_path, act) == ["seen.py"]


def test_a_change_is_reported_when_the_files_are_at_rest(tmp_path):
    class Busy(ProjectFiles):
        """A tree that differs at each of the first looks, as while files are being saved."""

        looks = 0

        def _scan(self):
            self.looks += 1
            return {"a.py": (min(self.looks, 5), 0, 0)}

    async def main():
        files = Busy(tmp_path)
        async with asyncio.timeout(60):
            await files.changed(interval=0.0)
        return files.looks

    assert asyncio.run(main()) == 6


def test_a_file_that_is_replaced_by_another_of_the_same_size_and_time_is_a_change(tmp_path):
    one, other = tmp_path / "a.py", tmp_path / "b.txt"
    one.write_text("1")
    other.write_text("2")
    status = one.stat()

    def act():
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(one)

    assert changes(tmp_path, act) == ["a.py"]
