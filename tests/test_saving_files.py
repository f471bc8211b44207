"""What `save` does to the file at a path: whole or untouched, with PyTorch's links and rights."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

import tapegrad as torch

NOBODY = 65534


def saved(path: pathlib.Path, value: float = 1.0) -> pathlib.Path:
    torch.save(torch.full((3,), value), path)
    return path


def only_file(path: pathlib.Path) -> bool:
    return os.listdir(path.parent) == [path.name]


def test_hard_links_stay_links(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path / "model.pt")
    other = tmp_path / "best.pt"
    os.link(path, other)
    torch.save(torch.arange(100.0), path)
    assert path.samefile(other)
    assert torch.equal(torch.load(other), torch.arange(100.0))
    torch.save(torch.zeros(1), path)  # a shorter one
    assert torch.equal(torch.load(other), torch.zeros(1))
    assert sorted(os.listdir(tmp_path)) == ["best.pt", "model.pt"]


def test_permissions_are_kept_and_new_files_follow_the_umask(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path / "model.pt")
    path.chmod(0o640)
    saved(path, 2.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        assert stat.S_IMODE(saved(tmp_path / "new.pt").stat().st_mode) == 0o640
    finally:
        os.umask(before)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may chown")
def test_the_owner_stays_the_owner(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path / "model.pt")
    os.chown(path, NOBODY, NOBODY)
    saved(path, 2.0)
    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)


RIGHTS = """
import os, sys
import tapegrad as torch
import json, tempfile  # nobody may not be able to read the library of this Python
tempfile.TemporaryFile().close()
folder = sys.argv[1]
warm = os.path.join(folder, "..", "warm.pt")
torch.save(torch.zeros(3), warm)
torch.load(warm)
if os.geteuid() == 0:
    os.setuid({nobody})
for name in ("read_only.pt", "writable.pt", "new.pt"):
    try:
        torch.save(torch.zeros(3), os.path.join(folder, name))
        print(name, torch.load(os.path.join(folder, name)).tolist())
    except RuntimeError as error:
        print(name, str(error).splitlines()[0])
"""


def test_read_only_files_and_folders(tmp_path: pathlib.Path) -> None:
    """PyTorch writes to a writable file in a read-only folder, and to no read-only file."""
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    saved(folder / "read_only.pt").chmod(0o444)
    saved(folder / "writable.pt").chmod(0o666)
    for place in (tmp_path, *list(tmp_path.parents)[:-2]):  # all but /tmp itself
        place.chmod(place.stat().st_mode | 0o055)
    folder.chmod(0o555)
    done = subprocess.run(
        [sys.executable, "-c", RIGHTS.format(nobody=NOBODY), str(folder)],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": "/tmp"},
    )
    folder.chmod(0o755)
    assert done.stdout.splitlines() == [
        "read_only.pt open file failed with strerror: Permission denied",
        "writable.pt [0.0, 0.0, 0.0]",
        "new.pt open file failed with strerror: Permission denied",
    ], done.stderr
    assert torch.equal(torch.load(folder / "read_only.pt"), torch.ones(3))


@pytest.mark.parametrize("linked", [False, True])
def test_a_full_disk_leaves_the_old_file(tmp_path: pathlib.Path, linked: bool) -> None:
    """A limit on the size of files stands for the full disk: both make a write fail half-way."""
    path = saved(tmp_path / "model.pt")
    names = ["model.pt"]
    if linked:
        os.link(path, tmp_path / "link.pt")
        names = ["link.pt", "model.pt"]
    before = path.read_bytes()
    program = """
    import resource, signal, sys
    import tapegrad as torch
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        torch.save(torch.zeros(1_000_000), sys.argv[1])
    except OSError as error:
        print(error.errno)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(path)], capture_output=True, text=True
    )
    assert done.stdout == f"{errno.EFBIG}\n", done.stderr
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == names


def test_no_space_for_the_copy_into_a_linked_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new bytes fit beside the old file, and not into it any more."""
    path = saved(tmp_path / "model.pt")
    os.link(path, tmp_path / "link.pt")
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        torch.save(torch.zeros(10_000), path)
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["link.pt", "model.pt"]


def test_ctrl_c_right_after_the_new_file_took_its_place(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "model.pt")
    replace = os.replace

    def interrupted(*given: Any) -> None:
        replace(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        saved(path, 2.0)
    assert torch.equal(torch.load(path), torch.full((3,), 2.0))
    assert only_file(path)


def test_files_that_killed_saves_left_are_removed(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path / "model.pt")
    long_ago = time.time() - 7200
    left = tmp_path / ".tapegrad-0123456789abcdef.tmp"
    going_on = tmp_path / ".tapegrad-fedcba9876543210.tmp"
    users = tmp_path / ".tapegrad-notes.tmp"
    for file in (left, going_on, users):
        file.write_bytes(b"x")
    for file in (left, users):
        os.utime(file, (long_ago, long_ago))
    saved(path, 2.0)
    assert set(os.listdir(tmp_path)) == {users.name, going_on.name, "model.pt"}


def test_a_killed_save_leaves_the_old_file_and_the_next_one_cleans_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = saved(tmp_path / "model.pt")
    pid = os.fork()
    if pid == 0:
        os.replace = os.fsync = lambda *_: os._exit(9)  # type: ignore[assignment]
        try:
            saved(path, 2.0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    assert torch.equal(torch.load(path), torch.ones(3))
    (left,) = [name for name in os.listdir(tmp_path) if name != "model.pt"]
    os.utime(tmp_path / left, (0, 0))
    saved(path, 3.0)
    assert only_file(path)
