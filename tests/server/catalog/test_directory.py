"""Directories as resources: what is below can be read, and nothing else."""

import os
import sys

import pytest

from mcplite.errors import InvalidParams, RegistrationError, ResourceNotFound
from mcplite.server.catalog.directory import Directory
from tests.support.systems import needs_links


@pytest.fixture
def maps(tmp_path):
    root = tmp_path / "maps"
    (root / "north").mkdir(parents=True)
    (root / "a.txt").write_text("text", "utf-8")
    (root / "north" / "b.txt").write_text("grüße", "utf-8")
    (root / "c.bin").write_bytes(b"\xff\0")
    (root / "empty").write_bytes(b"")
    (tmp_path / "secret").write_text("secret")
    return Directory("file:///srv/maps/", str(root), 1000)


@pytest.mark.parametrize("path, content", [("a.txt", "text"), ("north/b.txt", "grüße"), ("c.bin", b"\xff\0"), ("empty", ""),
                                           ("./a.txt", "text"), ("north//b.txt", "grüße")])
def test_files_are_text_if_they_are_utf8(maps, path, content):
    assert maps.read(path) == content


@pytest.mark.parametrize("path, listing, uri", [
    ("", "a.txt\nc.bin\nempty\nnorth/", "file:///srv/maps/"), ("north", "b.txt", "file:///srv/maps/north"),
    ("north/", "b.txt", "file:///srv/maps/north/")])
def test_a_directory_is_listed(maps, path, listing, uri):
    contents, = maps.read(path)
    assert (contents.text, contents.uri, contents.mime_type) == (listing, uri, "inode/directory")


@pytest.mark.parametrize("path", [
    "missing", "north/missing", "a.txt/x", "../secret", "north/../../secret", "/etc/passwd", "%2e%2e/secret", "..%2fsecret",
    "a.txt\0", "..\\secret", "C:/x", "con", "a.txt.", "x" * 5000])
def test_files_outside_of_the_directory_do_not_exist(maps, path):
    with pytest.raises(ResourceNotFound) as caught:
        maps.read(path)
    assert caught.value.data == {"uri": f"file:///srv/maps/{path}"}
    assert caught.value.message == f"Resource not found: file:///srv/maps/{path[:200]}"


@needs_links
def test_links_out_of_the_directory_are_not_followed(maps, tmp_path):
    (tmp_path / "maps" / "out").symlink_to(tmp_path / "secret")
    (tmp_path / "maps" / "up").symlink_to(tmp_path)
    (tmp_path / "maps" / "in").symlink_to(tmp_path / "maps" / "a.txt")
    for path in ("out", "up/secret", "up"):
        with pytest.raises(ResourceNotFound):
            maps.read(path)
    assert maps.read("in") == "text"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_special_files_do_not_exist(maps, tmp_path):
    os.mkfifo(str(tmp_path / "maps" / "pipe"))
    with pytest.raises(ResourceNotFound):
        maps.read("pipe")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere names are text")
def test_names_that_are_not_utf8_can_be_listed(maps, tmp_path):
    with open(os.fsencode(str(tmp_path / "maps" / "north")) + b"/\xff.txt", "wb"):
        contents, = maps.read("north")
    assert contents.text == "b.txt\n\ufffd.txt"


@pytest.mark.parametrize("path", ["no such place", __file__])
def test_the_directory_must_exist(path):
    with pytest.raises(RegistrationError, match=r"^add_directory\('file:///x'\): .* is not a directory$"):
        Directory("file:///x", path, 1000)


def test_its_name_is_the_folders(maps):
    assert maps.name == "maps" and Directory("file:///", os.path.abspath(os.sep), 1000).name == "files"


def test_it_is_served_by_a_template(connect, server, maps, tmp_path):
    server.add_directory("file:///srv/maps", str(tmp_path / "maps"))
    client = connect(server)
    listed, = client.result("resources/templates/list")["resourceTemplates"]
    assert listed["uriTemplate"] == "file:///srv/maps/{+path}" and listed["name"] == "maps"
    assert client.result("resources/read", {"uri": "file:///srv/maps/north/b.txt"})["contents"][0]["text"] == "grüße"
    for uri in ("file:///srv/maps/../secret", "file:///srv/maps/%2e%2e/secret", "file:///srv/maps/x"):
        assert "error" in client.ask("resources/read", {"uri": uri})


def test_a_file_over_the_limit_is_refused_with_its_size(maps, tmp_path):
    (tmp_path / "maps" / "large").write_bytes(b"x" * 1001)
    (tmp_path / "maps" / "fits").write_bytes(b"x" * 1000)
    with pytest.raises(InvalidParams, match=r"^file:///srv/maps/large has 1001 bytes; this server reads files of up to 1000"):
        maps.read("large")
    assert maps.read("fits") == "x" * 1000


def test_the_limit_is_the_servers(tmp_path):
    import mcplite

    (tmp_path / "a").write_bytes(b"12345")
    server = mcplite.Server("small", limits=mcplite.Limits(file_bytes=4))
    server.add_directory("file:///a", str(tmp_path))
    with mcplite.connect(server) as client, pytest.raises(InvalidParams, match="up to 4 bytes"):
        client.read_resource("file:///a/a")


@pytest.mark.skipif(os.name != "posix", reason="POSIX only")
def test_an_error_of_the_system_on_the_way_is_no_traceback(maps, tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(40, "Too many levels of symbolic links")

    monkeypatch.setattr(os.path, "realpath", refuse)
    with pytest.raises(ResourceNotFound):
        maps.read("a.txt")
