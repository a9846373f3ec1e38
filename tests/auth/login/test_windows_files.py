"""Access lists of Windows: whom a store's files are for, and which are refused."""

import contextlib
import os

import pytest

from mcplite.auth.login import windows_files
from mcplite.auth.login.file_store import FileStore, make_folder
from tests.support.keeping import NEW, OLD, every_use, make_own_file, refused
from tests.support.systems import windows_only

pytestmark = windows_only

EVERYONE, USERS = "S-1-1-0", "S-1-5-32-545"


@contextlib.contextmanager
def descriptor_of(entries):
    """Make a security descriptor with these entries, in the language that Windows has for them."""
    import ctypes

    descriptor = ctypes.c_void_p()
    assert windows_files._security().ConvertStringSecurityDescriptorToSecurityDescriptorW(
        "D:P" + entries, 1, ctypes.byref(descriptor), None)
    yield descriptor
    windows_files._kernel().LocalFree(descriptor)


@contextlib.contextmanager
def access_list(entries):
    """Make a list of these entries."""
    import ctypes

    get = ctypes.WinDLL("advapi32").GetSecurityDescriptorDacl
    get.argtypes = [ctypes.c_void_p] * 4
    found, present, default = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    with descriptor_of(entries) as descriptor:
        assert get(descriptor, ctypes.byref(present), ctypes.byref(found), ctypes.byref(default)) and present
        yield found


def grant(path, entries):
    """Replace the access list of a file or folder."""
    import ctypes

    change = ctypes.WinDLL("advapi32").SetFileSecurityW
    change.argtypes = [ctypes.c_wchar_p, ctypes.c_uint32, ctypes.c_void_p]
    with descriptor_of(entries) as descriptor:
        assert change(str(path), 4, descriptor)  # DACL_SECURITY_INFORMATION


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store" / "credentials.json"


@pytest.fixture
def ours():
    return f"(A;OICI;FA;;;{windows_files._our_user()})"


def access(path):
    return windows_files.read_access_list(str(path), os.path.isdir(path))


def test_everything_is_for_its_user_alone(tmp_path):
    path = tmp_path / "one" / "two" / "credentials.json"
    store = FileStore(path)
    store.save("a", OLD)
    with store.lock("a", lambda: None):
        made = [os.path.join(folder, name) for folder, folders, files in os.walk(tmp_path) for name in folders + files]
        assert len(made) == 5
        assert [access(name) for name in made] == [("", [])] * 5
    store.save("a", NEW)
    assert access(path) == ("", [])


@pytest.mark.parametrize("entry, who", [
    ("(A;;FR;;;WD)", EVERYONE), ("(A;;GR;;;WD)", EVERYONE), ("(A;;FA;;;WD)", EVERYONE), ("(A;;FW;;;WD)", EVERYONE),
    ("(A;;0x1;;;WD)", EVERYONE),
])
def test_a_file_that_others_can_use_is_refused(path, ours, entry, who):
    store = FileStore(path)
    store.save("a", OLD)
    grant(path, ours + entry)
    for use in every_use(store):
        text = refused(use)
        assert who in text and f'icacls "{path}" /inheritance:d /remove *{who}' in text
    grant(path, ours)
    assert store.load("a") == OLD


@pytest.mark.parametrize("entry", ["(A;;FW;;;WD)", "(A;;FA;;;WD)", "(A;;GW;;;WD)"])
def test_a_folder_that_others_can_change_is_refused(path, ours, entry):
    store = FileStore(path)
    store.save("a", OLD)
    grant(path.parent, ours + entry)
    for use in every_use(store):
        text = refused(use)
        assert EVERYONE in text and str(path.parent) in text
    grant(path.parent, ours)
    assert store.load("a") == OLD


def test_a_folder_that_others_can_only_read_is_accepted(path, ours):
    make_folder(str(path.parent))
    grant(path.parent, ours + "(A;;FRFX;;;WD)")
    store = FileStore(path)
    for use in every_use(store):
        use()
    assert access(path) == ("", [])


@pytest.mark.parametrize("entries, others", [
    ("(A;;FA;;;SY)(A;;FA;;;BA)", []), ("(A;;FR;;;BU)", [USERS]), ("(D;;FA;;;WD)(A;;0x20000;;;BU)", []),
    ("(A;OICIIO;FA;;;WD)", []), ("(A;;FR;;;WD)(A;;FW;;;WD)(A;;FR;;;BU)", [EVERYONE, USERS]),
])
def test_which_entries_of_a_list_count(entries, others):
    with access_list(entries) as found:
        assert windows_files._others(found, False, windows_files._TRUSTED) == others


def test_an_entry_of_an_unknown_kind_may_be_for_anyone():
    import ctypes

    with access_list("(A;;FR;;;SY)") as found:
        ctypes.cast(found, ctypes.POINTER(ctypes.c_ubyte))[8] = 5  # the kind of the first entry: with the ids of objects
        assert windows_files._others(found, False, windows_files._TRUSTED) == [EVERYONE]


def test_files_of_another_user_are_refused(path, monkeypatch):
    store = FileStore(path)
    store.save("a", OLD)
    us = windows_files._our_user()
    monkeypatch.setattr(windows_files, "_our_user", lambda: "S-1-5-21-1-2-3-1001")
    for use in every_use(store):
        assert us in refused(use)


def test_a_file_system_without_lists_is_refused(path, monkeypatch):
    make_own_file(path)
    import ctypes

    class Without:
        def __getattr__(self, name):
            return getattr(real, name)

        def GetNamedSecurityInfoW(self, *arguments):
            status = real.GetNamedSecurityInfoW(*arguments)
            ctypes.cast(arguments[5], ctypes.POINTER(ctypes.c_void_p))[0] = None  # the list
            return status

    real = windows_files._security()
    monkeypatch.setattr(windows_files, "_security", Without)
    assert access(path) == ("", [EVERYONE])
