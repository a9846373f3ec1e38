"""Directories as resources: what is below can be read, and nothing else."""

import errno
import os
import re
import sys
import threading

import pytest

import mcplite
from mcplite.errors import InvalidParams, RegistrationError, ResourceNotFound
from mcplite.revisions import REVISIONS
from mcplite.server.catalog import directory
from mcplite.server.catalog.directory import Directory, FileTooLarge, NotBelow, is_below, media_type, read_below
from mcplite.types import BlobResourceContents
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


def content_of(contents):
    one, = contents
    return one.bytes if isinstance(one, BlobResourceContents) else one.text


@pytest.mark.parametrize("path, content", [("a.txt", "text"), ("north/b.txt", "grüße"), ("c.bin", b"\xff\0"), ("empty", ""),
                                           ("./a.txt", "text"), ("north//b.txt", "grüße")])
def test_files_are_text_if_they_are_utf8(maps, path, content):
    assert content_of(maps.read(path)) == content
    assert maps.size(path) == len(content.encode() if isinstance(content, str) else content)


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
    assert content_of(maps.read("in")) == "text"
    assert [file.path for file in maps.files()] == ["a.txt", "c.bin", "empty", "in", "north/b.txt"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere names are text")
def test_only_names_that_a_request_can_name_are_listed_and_each_can_be_read(maps, tmp_path, connect, server):
    north = os.fsencode(str(tmp_path / "maps" / "north")) + b"/"
    good = ["100%.txt", "C:x", "a+b=c&d.txt", "c%41.txt", "d #1?.txt", "e;f,g@h!.txt", "j[1]{2}.txt", "k'\"`^|<>.txt", "~l.txt",
     "ü–日.txt"]
    for name in [*map(os.fsencode, good), b"\xff.txt", b"back\\slash", b"ends.", b"blank ", b"con", b"x%2fy", b"aux.txt"]:
        with open(north + name, "wb") as file:
            file.write(name)
    with open(north + b"m\nn.txt", "wb"):
        contents, = maps.read("north")
    assert contents.text.split("\n") == sorted(["b.txt", *good])
    server.add_directory("file:///srv/maps", str(tmp_path / "maps"))
    client = connect(server)
    listed = {one["name"]: one["uri"] for one in client.result("resources/list")["resources"]}
    assert {name[6:] for name in listed if name.startswith("north/")} == {"b.txt", "m\nn.txt", *good}
    for name in good:
        uri = listed["north/" + name]
        found, = client.result("resources/read", {"uri": uri})["contents"]
        assert found["text"] == name and found["uri"] == uri and uri.isascii()
    assert "contents" in client.result("resources/read", {"uri": listed["north/m\nn.txt"]})


@pytest.mark.parametrize("uri", ["file:///srv/my maps", "file:///srv/Ü", "File:///srv/%c3%9c/", "file:///c%3A/maps",
 "x://a/./b{c}", "http://Ex.com"])
def test_what_is_listed_can_be_read_in_any_form_of_its_uri(maps, tmp_path, uri):
    (tmp_path / "maps" / "ä b.txt").write_text("found")
    mcp = mcplite.Server("files")
    mcp.add_directory(uri, str(tmp_path / "maps"))
    base = uri if uri.endswith("/") else uri + "/"
    with mcplite.connect(mcp, options=mcplite.ClientOptions(cache=False)) as client:
        for resource in client.list_resources():
            assert resource.uri.isascii() and client.read_resource(resource.uri).contents[0].uri == resource.uri
        for asked in (base + "ä b.txt", base + "%C3%a4%20b.txt", base + "north/.././ä b.txt"):
            assert client.read_resource(asked).text == "found"
        mcp.remove_directory(uri)
        assert client.list_resources() == [] and client.list_resource_templates() == []


@pytest.mark.parametrize("uri, reason", [("my_maps://x", "'my-maps:'"), ("maps", "needs a scheme"), ("1x:/", "a letter first"),
 ("x://a?b", "%3F"), ("x://a#b", "%23"), ("x://a\n", "control"), ("", "needs a scheme")])
def test_a_uri_that_no_request_can_name_is_refused(maps, tmp_path, uri, reason):
    with pytest.raises(RegistrationError, match="^add_directory.*" + re.escape(reason)):
        mcplite.Server("files").add_directory(uri, str(tmp_path / "maps"))


def test_hidden_files_are_served_if_that_is_asked_for(maps, tmp_path):
    root = tmp_path / "maps"
    (root / ".git" / "refs").mkdir(parents=True)
    hidden = [".env", ".git/config", ".git/refs/head", "north/.netrc", "..data"]
    for path in hidden:
        (root / path).write_text("KEY=1")
    for path in [*hidden, "./.env", "north/../.env", "north//.netrc", ".git", ".git/", ".git/refs/"]:
        with pytest.raises(ResourceNotFound):
            maps.read(path)
    assert maps.read("")[0].text == "a.txt\nc.bin\nempty\nnorth/" and maps.read("north")[0].text == "b.txt"
    assert [file.path for file in maps.files()] == ["a.txt", "c.bin", "empty", "north/b.txt"]
    mcp = mcplite.Server("files")
    mcp.add_directory("file:///p", str(root), hidden=True)
    with mcplite.connect(mcp) as client:
        assert ".env" in client.read_resource("file:///p/").text and ".git/" in client.read_resource("file:///p").text
        assert {one.name for one in client.list_resources()} > set(hidden)
        for path in hidden:
            assert client.read_resource("file:///p/" + path).text == "KEY=1"


def test_a_listing_has_as_many_bytes_as_a_file_may_have(maps, tmp_path):
    for number in range(110):
        (tmp_path / "maps" / f"file{number:05}").write_bytes(b"")
    with pytest.raises(InvalidParams, match="reads files of up to 1000 bytes"):
        maps.read("")
    assert len(maps.files()) == 114  # which are counted


@pytest.mark.parametrize("path", ["no such place", __file__])
def test_the_directory_must_exist(path):
    with pytest.raises(RegistrationError, match=r"^add_directory\('file:///x'\): .* is not a directory$"):
        Directory("file:///x", path, 1000)


def test_a_directory_whose_listing_is_taken_is_not_served_at_all(maps, tmp_path):
    mcp = mcplite.Server("files")
    mcp.add_resource("file:///srv/maps", lambda: "mine", name="mine")
    with pytest.raises(RegistrationError, match="registered already"):
        mcp.add_directory("file:///srv/maps", str(tmp_path / "maps"))
    with mcplite.connect(mcp) as client:
        assert client.read_resource("file:///srv/maps").text == "mine"
        with pytest.raises(ResourceNotFound):
            client.read_resource("file:///srv/maps/a.txt")


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
    assert content_of(maps.read("fits")) == "x" * 1000


def test_the_limit_is_the_servers(tmp_path):
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


FILES = {"index.html": b"<p>", "data.json": b"{}", "notes.md": b"# A", "pixel.png": b"PNG", "table.csv": b"a,b", "odd": b"x",
         "packed.tar.gz": b"\x1f\x8b", "latin.txt": b"gr\xfc\xdfe", "page.pdf": b"%PDF-1.7", "drawing.svg": b"<svg/>",
         "a b%20#?\u00fc.txt": "gr\u00fc\u00dfe".encode()}


@pytest.fixture
def served(tmp_path):
    for name, data in FILES.items():
        if os.name == "posix" or "?" not in name:
            (tmp_path / name).write_bytes(data)
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "deep" / "er" / "x.txt").write_bytes(b"x")
    (tmp_path / "deep" / ".hidden").write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize("name, kind, text", [
    ("index.html", "text/html", True), ("data.json", "application/json", True), ("notes.md", "text/markdown", True),
    ("pixel.png", "image/png", False), ("table.csv", "text/csv", True), ("odd", "text/plain", True),
    ("packed.tar.gz", "application/gzip", False), ("latin.txt", "text/plain", False), ("page.pdf", "application/pdf", False),
    ("drawing.svg", "image/svg+xml", True),
])
def test_contents_have_the_media_type_of_the_extension(served, name, kind, text):
    contents, = Directory("file:///d", str(served), 1000).read(name)
    assert (contents.mime_type, hasattr(contents, "text")) == (kind, text)
    assert content_of([contents]) == (FILES[name].decode() if text else FILES[name])


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
@pytest.mark.parametrize("uri", ["file:///d", "file:///d/", "docs://"])
def test_files_are_listed_and_each_can_be_read(served, uri, revision):
    mcp = mcplite.Server("files", options=mcplite.ServerOptions(page_size=4))
    mcp.add_directory(uri, str(served))
    base = uri.rstrip("/") + ("//" if uri == "docs://" else "/")
    with mcplite.connect(mcp, revision=revision) as client:
        root, *listed = client.list_resources()
        assert root.uri == base and client.read_resource(base).contents[0].mime_type == "inode/directory"
        assert "deep/" in client.read_resource(base).text.split("\n")
        if uri != "docs://":
            assert client.read_resource(base[:-1]).text == client.read_resource(base).text
        assert client.read_resource(base + "deep/er/").text == "x.txt"
        assert sorted(resource.name for resource in listed) == sorted(
            [*(name for name in FILES if (served / name).exists()), "deep/er/x.txt"])
        for resource in listed:
            contents, data = client.read_resource(resource.uri).contents[0], FILES.get(resource.name, b"x")
            assert content_of([contents]) in (data, data.decode("utf-8", "replace")) and resource.size == len(data)
            assert resource.mime_type in (contents.mime_type, None)


def test_the_list_is_of_the_moment_and_bounded(served):
    mcp = mcplite.Server("files")
    mcp.add_resource("memo://a", lambda: "x", name="memo")
    mcp.add_directory("file:///d", str(served), list_files=3)
    with mcplite.connect(mcp, options=mcplite.ClientOptions(cache=False)) as client:
        assert len(client.list_resources()) == 5
        (served / "0").write_bytes(b"")
        assert "0" in [resource.name for resource in client.list_resources()] and len(client.list_resources()) == 5
        mcp.remove_directory("file:///d/")
        assert [resource.name for resource in client.list_resources()] == ["memo"]
        mcp.add_directory("file:///d", str(served), list_files=0)
        assert [resource.name for resource in client.list_resources()] == ["memo", served.name]
        assert client.read_resource("file:///d/odd").text == "x"


@needs_links
def test_a_link_to_a_folder_above_does_not_make_the_list_endless(served):
    (served / "deep" / "loop").symlink_to(served)
    names = [file.path for file in Directory("file:///d", str(served), 1000).files()]
    assert names.count("odd") == 1 and not any("loop" in name for name in names)


def test_a_folder_with_many_names_is_not_looked_at_for_ever(tmp_path):
    for number in range(1200):
        (tmp_path / f".{number}").mkdir()
    (tmp_path / "z").write_bytes(b"")
    assert Directory("file:///d", str(tmp_path), 1000, most=1).files() == []


def test_middleware_sees_the_list_of_files(served):
    seen = []

    def look(ctx, proceed):
        result = proceed()
        seen.append(result)
        return result

    mcp = mcplite.Server("files", middleware=[look])
    mcp.add_directory("file:///d", str(served))
    with mcplite.connect(mcp) as client:
        client.list_resources()
    assert any("resources" in result for result in seen)


@pytest.mark.parametrize("options", [{"list_files": -1}, {"watch": 0}, {"watch": 1.0, "list_files": 0}])
def test_options_that_make_no_sense_are_refused(served, options):
    with pytest.raises(RegistrationError, match="list_files= is 0 or more"):
        mcplite.Server("files").add_directory("file:///d", str(served), **options)


# --- media types, the same on every system -------------------------------------------------------------


@pytest.mark.parametrize("name, kind", [
    ("a.png", "image/png"), ("A.PNG", "image/png"), ("a/b.c/d.html", "text/html"), ("a.json", "application/json"),
    ("README.md", "text/markdown"), ("a.yml", "application/yaml"), ("a.tar.gz", "application/gzip"),
    ("a.js", "text/javascript"), ("Makefile", None), ("a.unheard", None), (".md", None), ("data:x", None),
    ("a.bin", "application/octet-stream"), ("http://example.com", None),
])
def test_the_extension_says_what_a_file_is(name, kind):
    assert media_type(name) == kind


# --- between the check and the opening -----------------------------------------------------------------


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
