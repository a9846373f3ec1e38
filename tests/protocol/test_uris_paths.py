import ntpath
import os

import pytest
from hypothesis import example, given, strategies as st

from mcplite.protocol import uris
from mcplite.protocol.uris import check_root_uri, file_uri, is_within, path_of, safe_join
from tests.support.systems import LINKS, needs_links, posix_only, windows_only


@pytest.fixture
def tree(tmp_path):
    """A root with a file, a folder, and links that stay and links that leave; and what is outside of it."""
    base = os.path.realpath(tmp_path)
    for name in ("root/folder", "root-sibling", "outside"):
        os.makedirs(os.path.join(base, name))
    for name in ("root/file.txt", "root/folder/inner.txt", "root-sibling/secret", "outside/secret"):
        with open(os.path.join(base, name), "w") as file:
            file.write(name)
    root = os.path.join(base, "root")
    if not LINKS:
        return base
    os.symlink("folder", os.path.join(root, "stays"))
    os.symlink(os.path.join(base, "outside"), os.path.join(root, "leaves"))
    os.symlink("../outside/secret", os.path.join(root, "secret"))
    os.symlink("..", os.path.join(root, "up"))
    os.symlink("leaves", os.path.join(root, "folder", "twice"))
    os.symlink("loop", os.path.join(root, "loop"))
    return base


def test_paths_below_the_root(tree):
    root = os.path.join(tree, "root")
    assert safe_join(root, "file.txt") == os.path.join(root, "file.txt")
    assert safe_join(root, "folder/inner.txt") == os.path.join(root, "folder", "inner.txt")
    assert safe_join(root, "folder//./inner.txt") == os.path.join(root, "folder", "inner.txt")
    assert safe_join(root, "not/yet/there") == os.path.join(root, "not", "yet", "there")
    for same in ("", ".", "./", "folder/."):
        assert safe_join(root, same).startswith(root)
    assert safe_join(root, ".hidden..file") == os.path.join(root, ".hidden..file")
    assert safe_join(root, "100% sure") == os.path.join(root, "100% sure")
    assert safe_join(root, "a%20b") == os.path.join(root, "a%20b")
    assert safe_join(root, "a%e9b") == os.path.join(root, "a%e9b")
    assert safe_join(root, "é😀") == os.path.join(root, "é😀")
    assert safe_join(root, "a%20b/c%20d") == os.path.join(root, "a%20b", "c%20d")
    # Windows takes only blanks and dots behind the name of a device for nothing.
    assert safe_join(root, "con\u00a0.txt") == os.path.join(root, "con\u00a0.txt")
    assert safe_join(root, "console") == os.path.join(root, "console")


@posix_only
def test_names_that_are_not_utf8(tree):
    assert safe_join(tree, "caf\udce9") == os.path.join(tree, "caf\udce9")
    assert safe_join(tree, "caf\udce9%20") == os.path.join(tree, "caf\udce9%20")


@posix_only
def test_a_colon_is_part_of_a_name(tree):
    assert safe_join(tree, "ab:c") == os.path.join(tree, "ab:c")


@needs_links
def test_a_link_that_stays(tree):
    root = os.path.join(tree, "root")
    assert safe_join(root, "stays/inner.txt") == os.path.join(root, "folder", "inner.txt")


@needs_links
def test_the_root_may_be_reached_by_a_link(tree):
    link = os.path.join(tree, "link")
    os.symlink("root", link)
    assert safe_join(link, "file.txt") == os.path.join(tree, "root", "file.txt")


@pytest.mark.parametrize("relative", [
    # SEC-71
    "..", "../outside", "../root-sibling/secret", "folder/../../outside", "folder/..", "./..", "a/../../root/file.txt",
    "%2e%2e", "%2e%2e/outside", "..%2foutside", "%2E%2E%2Foutside", ".%2e/outside", "folder%2f..%2f..%2foutside",
    "folder%5c..%5coutside", "%00", "a%00b", "folder%2finner.txt", "%2fetc%2fpasswd", "..%c0%afoutside", "/etc/passwd",
    "//host/share", "\\\\host\\share", "\\etc", "C:", "C:/x", "c:\\x", "C:x", "folder\\..\\..\\outside", "a\\b", "..\\outside",
    "\0", "file.txt\0", "../\0", "file.txt ", "file.txt.", "folder /inner.txt", "folder./x", "...", ".. ", " ..  /x",
    "folder/ ..", ".. /outside", "con", "NUL", "aux.txt", "folder/Com1.x", "lpt9", "PRN.", "con .txt", "com\u00b9", "CONIN$",
    "conout$.x", "up/root/../outside", "folder/twice/../../x", "stays/../../outside",
    *[pytest.param(link, marks=needs_links) for link in ("leaves", "leaves/secret", "secret", "up", "up/outside/secret")],
])
def test_paths_that_leave_or_mean_something_else(tree, relative):
    with pytest.raises(ValueError) as caught:
        safe_join(os.path.join(tree, "root"), relative)
    assert len(str(caught.value)) < 400 and "\0" not in str(caught.value)


@pytest.mark.parametrize("relative, reason", [
    ("file.txt\0", "must not contain NUL"), ("a%5cb", "hides a path"), ("%2e%2e", "hides a path"), ("a%2fb", "hides a path"),
    ("a/b%2fc", "hides a path"), ("a%00b", "hides a path"), ("/etc", "not a relative path"), ("\\etc", "not a relative path"),
    ("c:x", "not a relative path"), ("a/..", "leaves its directory"), ("a\\b", "leaves its directory"),
    ("nul .x", "a name that some systems"), ("x. ", "a name that some systems"),
    pytest.param("leaves/secret", "leaves its directory", marks=needs_links),
])
def test_a_refusal_says_what_is_wrong(tree, relative, reason):
    with pytest.raises(ValueError, match=reason):
        safe_join(os.path.join(tree, "root"), relative)


@needs_links
def test_a_link_that_leads_to_a_sibling_with_the_same_beginning(tree):
    root = os.path.join(tree, "root")
    os.symlink("../root-sibling", os.path.join(root, "sibling"))
    with pytest.raises(ValueError, match="leaves"):
        safe_join(root, "sibling/secret")


def test_a_link_to_itself_ends(tree):
    root = os.path.join(tree, "root")
    try:
        assert safe_join(root, "loop/x").startswith(root)
    except ValueError:
        pass  # refusing it is as good


def test_very_long_paths(tree):
    root = os.path.join(tree, "root")
    assert safe_join(root, "/".join(["a"] * 500)).startswith(root)
    with pytest.raises(ValueError):
        safe_join(root, "a/" * 500 + "..")


def test_the_root_of_everything():
    assert safe_join("/", "etc") == os.path.realpath("/etc")


@given(st.lists(st.sampled_from(["..", ".", "", "folder", "leaves", "up", "stays", "secret", "root", "outside", "file.txt",
                                 "%2e%2e", "%2f", "\\", " ", "C:", "twice", "\0", "é", "root-sibling"]), max_size=6),
       st.sampled_from(["/", "/", "//", "\\", "%2f", "%5C", "%252f"]), st.booleans())
def test_nothing_escapes(parts, separator, absolute):
    relative = ("/" if absolute else "") + separator.join(parts)
    root = os.path.join(test_nothing_escapes.base, "root")
    try:
        target = safe_join(root, relative)
    except ValueError:
        return
    assert os.path.realpath(target) == target
    assert target == root or target.startswith(root + os.sep)


@given(st.text(max_size=30))
def test_any_path_stays_inside_of_the_folder(relative):
    root = os.path.join(test_nothing_escapes.base, "root")
    try:
        target = safe_join(root, relative)
    except ValueError:
        return
    assert target == root or target.startswith(root + os.sep)


@pytest.fixture(autouse=True)
def base_of_the_generated(request, tree):
    # Hypothesis calls a test many times within one fixture.
    test_nothing_escapes.base = tree


# ---- roots ----

def test_is_within(tree):
    root = os.path.join(tree, "root")
    assert is_within(root, [root]) and is_within(os.path.join(root, "x", "y"), [root])
    assert is_within(root, ["/nowhere", root + os.sep])
    assert not is_within(tree, [root])
    assert not is_within(os.path.join(tree, "root-sibling"), [root])
    assert not is_within(root, [])
    assert is_within(root, ["\0", root])
    assert not is_within(root + "\0", [root]) and not is_within(root, ["\0"])


@needs_links
def test_links_lead_in_and_out(tree):
    root = os.path.join(tree, "root")
    assert not is_within(os.path.join(root, "leaves", "secret"), [root])
    assert is_within(os.path.join(root, "up", "root", "file.txt"), [root])


def test_a_path_on_another_drive_is_not_within(tree, monkeypatch):
    def commonpath(names):
        raise ValueError("Paths don't have the same drive")

    monkeypatch.setattr(os.path, "commonpath", commonpath)
    assert not is_within(tree, [tree])


@posix_only
def test_file_uris():
    assert file_uri("/home/me/a b#c?d%é") == "file:///home/me/a%20b%23c%3Fd%25%C3%A9"
    assert file_uri("/") == "file:///"
    assert file_uri("x") == "file://" + file_uri(os.getcwd())[7:] + "/x"
    assert file_uri("/a/../b") == "file:///b"
    assert file_uri("//host/x") == "file:///host/x"
    assert file_uri("/c:/x") == "file:///c%3A/x"
    assert file_uri("/caf\udce9") == "file:///caf%E9"


@posix_only
def test_a_path_may_begin_with_any_character():
    for character in map(chr, [*range(1, 47), *range(48, 256)]):
        path = f"/{character}/x{character}" if character != "." else "/.x"
        assert path_of(file_uri(path)) == path


@posix_only
@pytest.mark.parametrize("uri, path", [
    ("file:///home/me/a%20b", "/home/me/a b"), ("file://localhost/x", "/x"), ("FILE:///x", "/x"), ("file:///", "/"),
    ("file:///caf%C3%A9", "/café"), ("file:///caf%e9", "/caf\udce9"), ("file:///100%", "/100%"), ("file://", "/"),
    ("file:///a+b", "/a+b"), ("file:///C:/x", "/C:/x"), ("file:////x", "//x"), ("file:///a%5cb", "/a\\b"),
])
def test_paths_of_uris(uri, path):
    assert path_of(uri) == path


@pytest.mark.parametrize("uri, reason", [
    ("http://x/y", "not a file"), ("", "not a file"), ("/x", "not a file"), ("file:/x", "not a file"),
    ("file://other/x", "on the host 'other'"), ("file://C:/x", "on the host 'C:'"), ("file://127.0.0.1/x", "on the host"),
    ("file:///a%00b", "NUL"), ("file:///a\0b", "NUL"),
])
def test_uris_without_a_path_here(uri, reason):
    with pytest.raises(ValueError, match=reason):
        path_of(uri)


# A name has no NUL, and it must go before the bytes are decoded: bytes that it kept apart may make a letter together.
# On Windows names are text.
@given((st.binary().map(lambda raw: os.fsdecode(raw.replace(b"\0", b""))) if os.name == "posix" else st.nothing())
       | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0")))
@example(os.fsdecode(b"\xc2\x80"))
def test_file_uris_and_back(text):
    path = os.path.abspath("/" + text)
    if os.name == "nt":
        path = os.path.abspath("C:/" + text)
        if path.startswith("\\\\.\\"):
            return  # the name of a device
    else:
        path = "/" + path.lstrip("/")
    uri = file_uri(path)
    assert uri.isascii() and uri.startswith("file:///") and not set(uri) & set(" ?#\\\n")
    assert path_of(uri) == path


@windows_only
@pytest.mark.parametrize("uri, path", [
    # A path without a drive is on the current one.
    ("file:///home/me/a%20b", "\\home\\me\\a b"), ("file:///", "\\"), ("FILE:///C:/x", "C:\\x"), ("file:///a%5cb", "\\a\\b"),
    ("file:///caf%C3%A9", "\\caf\u00e9"),
])
def test_paths_of_uris_on_windows_itself(uri, path):
    assert path_of(uri) == path


@windows_only
def test_a_uri_with_bytes_that_are_no_name_on_windows():
    with pytest.raises(ValueError, match="not UTF-8"):
        path_of("file:///caf%e9")


class Windows:
    """What the module would see of ``os`` on Windows."""

    sep, path = "\\", ntpath
    fsencode, fsdecode = staticmethod(str.encode), staticmethod(bytes.decode)


@pytest.mark.parametrize("path, uri", [
    # ROOT-18
    ("C:\\Users\\a b", "file:///C:/Users/a%20b"), ("c:\\", "file:///c:/"), ("D:\\\u00e9#?%", "file:///D:/%C3%A9%23%3F%25"),
    ("C:/x/../y", "file:///C:/y"),
])
def test_windows_paths(path, uri, monkeypatch):
    monkeypatch.setattr(uris, "os", Windows)
    assert file_uri(path) == uri
    assert path_of(uri) == ntpath.normpath(path)
    assert path_of(uri.replace(":/", "%3A/").replace("file%3A", "file:")) == ntpath.normpath(path)


def test_windows_shares(monkeypatch):
    monkeypatch.setattr(uris, "os", Windows)
    assert file_uri("\\\\host\\share\\x") == "file://host/share/x"
    for uri in ("file://host/share/x", "file:////host/share", "file:///%5C%5Chost/share", "file:///%2Fhost/share"):
        with pytest.raises(ValueError, match="host"):
            path_of(uri)


@pytest.mark.parametrize("relative", ["a:b", "a/b:$DATA", "a/c:", "a::$DATA", "C:", "c:x", "a\\b", "x/nul.txt", "..", "x. "])
def test_windows_names(relative, monkeypatch):
    monkeypatch.setattr(uris, "os", Windows)
    assert safe_join("C:\\root", "a/b").lower() == "c:\\root\\a\\b"
    assert safe_join("C:\\root", "a%e9b").lower() == "c:\\root\\a%e9b", "bytes that are not UTF-8, in an escape that stays"
    with pytest.raises(ValueError):
        safe_join("C:\\root", relative)


def test_windows_roots_may_have_escapes_that_are_not_utf8(monkeypatch):
    monkeypatch.setattr(uris, "os", Windows)
    assert check_root_uri("file:///C:/caf%e9") == "file:///C:/caf%e9"


def test_windows_does_not_tell_cases_apart(monkeypatch):
    monkeypatch.setattr(uris, "os", Windows)
    assert is_within("c:\\ROOT\\x", ["C:\\Root"]) and is_within("C:\\root", ["c:\\rooT\\"])
    assert not is_within("c:\\rooted", ["C:\\root"]) and not is_within("D:\\root", ["C:\\root"])


@pytest.mark.parametrize("uri", ["file:///", "file:///a/b", "file:///a..b/c", "file:///C:/x", "file:///a/...", "file:///caf%e9"])
def test_root_uris(uri):
    assert check_root_uri(uri) is uri


@pytest.mark.parametrize("uri, reason", [
    # ROOT-04, ROOT-07
    ("https://example.com", "file://"), ("", "file://"), (None, "file://"), (5, "file://"), ("/home", "file://"),
    ("file:///a/../b", "'..'"), ("file:///..", "'..'"), ("file:///a/%2e%2e/b", "'..'"), ("file:///a%2f..%2Fb", "'..'"),
    ("file:///C:/a%5c..%5Cb", "'..'"), ("file:///C:/a\\..\\b", "'..'"), ("file:///a%00", "NUL"), ("file:///a\0", "NUL"),
])
def test_uris_that_are_not_roots(uri, reason):
    with pytest.raises(ValueError, match=reason):
        check_root_uri(uri)
