"""What is read below a directory is below it when it is opened, whatever happens between the check and the opening."""

import errno
import os
import threading

import pytest

from mcplite.server.catalog import directory
from mcplite.server.catalog.directory import FileTooLarge, NotBelow, is_below, read_below

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX only")


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "maps"
    (made / "north").mkdir(parents=True)
    (made / "north" / "b.txt").write_bytes(b"inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "b.txt").write_bytes(b"secret")
    return made


def test_files_and_listings(root):
    assert read_below(str(root), "north/b.txt", 6) == b"inside"
    assert read_below(str(root), "", 7) == ["north/"]
    with pytest.raises(FileTooLarge):  # of the names in a directory
        read_below(str(root), "", 6)
    assert read_below(str(root), "", 0, 5) == ["north/"] and read_below(str(root), "", 100, 0) == []
    with pytest.raises(FileTooLarge) as caught:
        read_below(str(root), "north/b.txt", 5)
    assert caught.value.size == 6 and str(caught.value) == "the file has 6 bytes"
    for path in ("absent", "north/b.txt/x", "../outside/b.txt"):
        with pytest.raises(NotBelow):
            read_below(str(root), path, 6)


@posix
def test_links_that_stay_inside_are_followed(root):
    (root / "south").symlink_to("north")
    (root / "a.txt").symlink_to(root / "south" / "b.txt")
    (root / "lost").symlink_to("nowhere")
    assert read_below(str(root), "a.txt", 100) == read_below(str(root), "south/b.txt", 100) == b"inside"
    assert read_below(str(root), "", 100) == ["a.txt", "lost", "north/", "south/"]
    link = root.parent / "link"
    link.symlink_to(root)
    assert read_below(str(link), "north/b.txt", 100) == b"inside"


@posix
@pytest.mark.parametrize("name, link", [("north/b.txt", "../../outside/b.txt"), ("north", "../outside")])
def test_a_link_that_is_put_there_after_the_check_is_not_followed(root, monkeypatch, name, link):
    check = directory.safe_join

    def check_then_replace(*arguments):
        target = check(*arguments)
        if not (root / name).is_symlink():
            os.rename(root / name, root / "old")
            (root / name).symlink_to(link)
        return target

    monkeypatch.setattr(directory, "safe_join", check_then_replace)
    with pytest.raises(NotBelow):
        read_below(str(root), "north/b.txt", 100)


@posix
def test_a_name_that_becomes_a_link_inside_is_resolved_again(root, monkeypatch):
    check = directory.safe_join
    (root / "new").write_bytes(b"newer")

    def check_then_replace(*arguments):
        target = check(*arguments)
        (root / "north" / "b.txt").unlink()
        (root / "north" / "b.txt").symlink_to("../new")
        return target

    monkeypatch.setattr(directory, "safe_join", check_then_replace)
    assert read_below(str(root), "north/b.txt", 100) == b"newer"


@posix
@pytest.mark.parametrize("changing, looks", [(True, 3), (False, 1)])
def test_a_name_that_changes_again_and_again_is_given_up(root, monkeypatch, changing, looks):
    check, checked = directory.safe_join, []

    def check_then_replace(*arguments):
        checked.append(check(*arguments))
        if changing:
            (root / "north" / "b.txt").rename(root / "north" / "c.txt")
            (root / "north" / "b.txt").symlink_to("c.txt")
            return str(root / "north" / "b.txt")
        (root / "north" / "b.txt").unlink()
        return checked[-1]

    monkeypatch.setattr(directory, "safe_join", check_then_replace)
    with pytest.raises(NotBelow):
        read_below(str(root), "north/b.txt", 100)
    assert len(checked) == looks


@posix
def test_many_changes_beside_many_reads_bring_nothing_from_outside(root):
    directory, good, link = root / "swapped", root / "good", root / "evil"
    good.mkdir()
    (good / "b.txt").write_bytes(b"inside")
    link.symlink_to("../outside")
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            os.rename(good, directory)
            os.rename(directory, good)
            os.rename(link, directory)
            os.rename(directory, link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    found = []
    try:
        for _ in range(4000):
            try:
                found.append(read_below(str(root), "swapped/b.txt", 100))
            except NotBelow:
                found.append(b"")
    finally:
        stop.set()
        swapper.join(30)
    assert set(found) <= {b"inside", b""}


@posix
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO])
def test_a_failure_of_the_system_is_no_missing_file(root, monkeypatch, number):
    before = set(os.listdir("/dev/fd"))
    system_open = os.open

    def refuse(path, flags, *arguments, dir_fd=None):
        if path == "b.txt":
            raise OSError(number, os.strerror(number))
        return system_open(path, flags, *arguments, dir_fd=dir_fd)

    monkeypatch.setattr(directory.os, "open", refuse)
    with pytest.raises(OSError) as caught:
        read_below(str(root), "north/b.txt", 100)
    assert caught.value.errno == number
    monkeypatch.undo()
    assert set(os.listdir("/dev/fd")) == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX only")
def test_special_files_do_not_exist_and_do_not_block(root):
    os.mkfifo(root / "pipe")
    with pytest.raises(NotBelow):
        read_below(str(root), "pipe", 100)


@pytest.mark.skipif(not os.path.exists("/proc/version"), reason="POSIX only")
def test_a_file_whose_size_the_system_does_not_tell_is_bounded_as_well(monkeypatch):
    with open("/proc/version", "rb") as file:
        data = file.read()
    assert read_below("/proc", "version", len(data)) == data
    with pytest.raises(FileTooLarge) as caught:
        read_below("/proc", "version", 10)
    assert caught.value.size == 11  # no more was read


@posix
@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="POSIX only; root may read all files")
def test_a_file_that_may_not_be_read_does_not_exist(root):
    (root / "north" / "b.txt").chmod(0)
    with pytest.raises(NotBelow):
        read_below(str(root), "north/b.txt", 100)


@pytest.mark.parametrize("final, below", [
    ("\\\\?\\C:\\maps", True), ("\\\\?\\C:\\Maps\\a.txt", True), ("\\\\?\\C:\\mapsx\\a.txt", False), ("\\\\?\\C:\\", False),
    ("\\\\?\\D:\\maps\\a.txt", False), ("\\\\?\\UNC\\host\\share\\maps\\a.txt", False)])
def test_the_path_that_windows_reports_is_compared_as_text(final, below):
    assert is_below(final, "C:\\maps") is below
    assert is_below("//?/C:/maps/a.txt", "C:/MAPS")
    assert not is_below("C:\\ß\\a.txt", "C:\\ss")
    assert is_below("\\\\?\\UNC\\host\\share\\a", "\\\\host\\share") and is_below("\\\\?\\C:\\a", "C:\\")
