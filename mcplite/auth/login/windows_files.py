"""Files on Windows: owners and access lists, which are there in place of the modes of POSIX, and locks between processes.

This is a module of its own, since only functions of the system, called by ``ctypes``, can do this. :mod:`.file_store` uses it
only on Windows.
"""

import sys
from typing import AbstractSet, Any, Dict, List, NamedTuple

__all__ = ["AccessList", "lock_file", "make_own_folder", "open_own_file", "read_access_list"]


class AccessList(NamedTuple):
    """Who has rights to a file or folder, besides this user, the system and the administrators, as security identifiers."""

    #: The owner, if that is another user; empty if not.
    owner: str
    #: Users and groups that can read or write a file, or write into a folder.
    others: List[str]


if sys.platform == "win32":
    import ctypes
    import functools
    import msvcrt
    import os
    from ctypes import wintypes

    #: Rights to read a file's contents. With one of them, or one of the rights below, others could use the credentials.
    _READ_RIGHTS = 0x00000001 | 0x80000000 | 0x10000000  # FILE_READ_DATA, GENERIC_READ, GENERIC_ALL
    #: Rights to change a file, or the entries of a folder, or the list itself: FILE_WRITE_DATA, FILE_APPEND_DATA,
    #: FILE_DELETE_CHILD, DELETE, WRITE_DAC, WRITE_OWNER, GENERIC_WRITE, GENERIC_ALL.
    _WRITE_RIGHTS = 0x2 | 0x4 | 0x40 | 0x00010000 | 0x00040000 | 0x00080000 | 0x40000000 | 0x10000000
    #: The system and the administrators, who can give themselves every right; the owner as a placeholder.
    _TRUSTED = frozenset({"S-1-5-18", "S-1-5-32-544", "S-1-3-0", "S-1-3-4"})
    _EVERYONE = "S-1-1-0"
    _OWNER, _LIST = 1, 4
    _FILE_OBJECT = 1
    _INHERIT_ONLY = 8
    #: Kinds of entries that allow, and have the mask and the user in the same place: plain ones, and those with a condition.
    _ALLOWING = (0, 9)
    #: Kinds of entries that refuse or are for a log.
    _NOT_ALLOWING = (1, 2, 6, 7, 10, 12, 13, 15, 17, 18, 19)
    _READ, _WRITE = 0x80000000, 0x40000000
    #: While the file is open, others may read and write it, and not remove it; os.open() allows them as much.
    _SHARE = 3
    _CREATE_NEW, _OPEN_EXISTING, _OPEN_ALWAYS = 1, 3, 4
    #: FILE_FLAG_OPEN_REPARSE_POINT: a link itself is opened, and not its target.
    _NO_FOLLOW = 0x00200000
    #: LOCKFILE_EXCLUSIVE_LOCK and LOCKFILE_FAIL_IMMEDIATELY; and the two errors that say that another process has the lock.
    _EXCLUSIVE_NOW, _LOCK_VIOLATION, _IO_PENDING = 3, 33, 997
    _INVALID = ctypes.c_void_p(-1).value

    class _Attributes(ctypes.Structure):
        _fields_ = [("nLength", wintypes.DWORD), ("lpSecurityDescriptor", ctypes.c_void_p), ("bInheritHandle", wintypes.BOOL)]

    class _EntryHead(ctypes.Structure):
        _fields_ = [("AceType", ctypes.c_ubyte), ("AceFlags", ctypes.c_ubyte), ("AceSize", ctypes.c_ushort),
                    ("Mask", wintypes.DWORD)]

    def _library(name: str, **functions: Any) -> Any:
        """Load a library of the system and declare some functions: their result, then their arguments."""
        library = ctypes.WinDLL(name, use_last_error=True)
        for function, (result, *arguments) in functions.items():
            declared = getattr(library, function)
            declared.restype, declared.argtypes = result, arguments
        return library

    _P = ctypes.c_void_p

    @functools.lru_cache(maxsize=None)
    def _kernel() -> Any:
        return _library(
            "kernel32", LockFileEx=(wintypes.BOOL, _P, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, wintypes.DWORD, _P),
            LocalFree=(_P, _P), GetCurrentProcess=(_P,), CloseHandle=(wintypes.BOOL, _P),
            CreateDirectoryW=(wintypes.BOOL, wintypes.LPCWSTR, _P),
            CreateFileW=(_P, wintypes.LPCWSTR, wintypes.DWORD, wintypes.DWORD, _P, wintypes.DWORD, wintypes.DWORD, _P))

    @functools.lru_cache(maxsize=None)
    def _security() -> Any:
        return _library(
            "advapi32", OpenProcessToken=(wintypes.BOOL, _P, wintypes.DWORD, _P),
            GetTokenInformation=(wintypes.BOOL, _P, ctypes.c_int, _P, wintypes.DWORD, _P),
            ConvertSidToStringSidW=(wintypes.BOOL, _P, _P),
            ConvertStringSecurityDescriptorToSecurityDescriptorW=(wintypes.BOOL, wintypes.LPCWSTR, wintypes.DWORD, _P, _P),
            GetNamedSecurityInfoW=(wintypes.DWORD, wintypes.LPCWSTR, ctypes.c_int, wintypes.DWORD, _P, _P, _P, _P, _P),
            GetAce=(wintypes.BOOL, _P, wintypes.DWORD, _P))

    def _failed(number: int = 0) -> OSError:
        return ctypes.WinError(number or ctypes.get_last_error())

    def _text_of(sid: Any) -> str:
        """Return the text of a security identifier: ``S-1-5-18``."""
        found = wintypes.LPWSTR()
        if not _security().ConvertSidToStringSidW(sid, ctypes.byref(found)):
            raise _failed()
        try:
            return str(found.value)
        finally:
            _kernel().LocalFree(ctypes.cast(found, _P))

    def _our_user() -> str:
        """Return the identifier of the user that this process runs as."""
        security, kernel = _security(), _kernel()
        token = _P()
        if not security.OpenProcessToken(kernel.GetCurrentProcess(), 8, ctypes.byref(token)):  # TOKEN_QUERY
            raise _failed()
        try:
            size = wintypes.DWORD(512)
            found = (ctypes.c_byte * size.value)()
            if not security.GetTokenInformation(token, 1, found, size, ctypes.byref(size)):  # TokenUser
                raise _failed()
            return _text_of(ctypes.cast(found, ctypes.POINTER(_P))[0])
        finally:
            kernel.CloseHandle(token)

    def _others(entries: Any, folder: bool, trusted: AbstractSet[str]) -> List[str]:
        """Return the other users and groups to whom a list gives a right that makes a file or folder unfit for credentials."""
        rights = _WRITE_RIGHTS if folder else _WRITE_RIGHTS | _READ_RIGHTS
        found: Dict[str, None] = {}
        # The head of a list: revision and padding, size, number of entries.
        for number in range(ctypes.cast(entries, ctypes.POINTER(ctypes.c_ushort))[2]):
            entry = _P()
            if not _security().GetAce(entries, number, ctypes.byref(entry)):
                raise _failed()
            head = ctypes.cast(entry, ctypes.POINTER(_EntryHead)).contents
            if head.AceType in _NOT_ALLOWING or head.AceFlags & _INHERIT_ONLY or not head.Mask & rights:
                continue
            start = (entry.value or 0) + ctypes.sizeof(_EntryHead)
            found[_text_of(start) if head.AceType in _ALLOWING else _EVERYONE] = None
        return [user for user in found if user not in trusted]

    class _OwnAttributes:
        """The security attributes of a new file or folder: one user, and no rights from the folder above."""

        def __enter__(self) -> Any:
            user = _our_user()
            # The owner is named, because for an administrator it would otherwise be the group of administrators.
            text = f"O:{user}D:P(A;OICI;FA;;;{user})(A;OICI;FA;;;SY)"
            self._descriptor = _P()
            if not _security().ConvertStringSecurityDescriptorToSecurityDescriptorW(
                    text, 1, ctypes.byref(self._descriptor), None):
                raise _failed()
            self._attributes = _Attributes(ctypes.sizeof(_Attributes), self._descriptor, False)
            return ctypes.byref(self._attributes)

        def __exit__(self, *unused: object) -> None:
            _kernel().LocalFree(self._descriptor)


def make_own_folder(path: str) -> None:
    """Make a folder on Windows, to which its user and the system have rights, and no other.

    :raises FileExistsError: it exists.
    :raises OSError: it cannot be made.
    """
    if sys.platform == "win32":
        with _OwnAttributes() as attributes:
            if not _kernel().CreateDirectoryW(path, attributes):
                raise _failed()
            return
    raise NotImplementedError


def open_own_file(path: str, flags: int) -> int:
    """Return the descriptor of a file on Windows; a new file has rights for its user and the system, and for no other.

    A link is opened itself, so that it can be seen and refused.

    :param flags: as for ``os.open``: how to read and write, ``O_CREAT`` and ``O_EXCL``.
    :raises OSError: it cannot be opened.
    """
    if sys.platform == "win32":
        access = {os.O_RDONLY: _READ, os.O_WRONLY: _WRITE, os.O_RDWR: _READ | _WRITE}[flags & 3]
        made = _OPEN_EXISTING if not flags & os.O_CREAT else _CREATE_NEW if flags & os.O_EXCL else _OPEN_ALWAYS
        with _OwnAttributes() as attributes:
            handle = _kernel().CreateFileW(path, access, _SHARE, attributes, made, _NO_FOLLOW, None)
        if handle == _INVALID:
            raise _failed()
        descriptor = -1
        try:
            descriptor = msvcrt.open_osfhandle(handle, flags & 3)
        finally:
            if descriptor < 0:
                _kernel().CloseHandle(handle)
        return descriptor
    raise NotImplementedError


def lock_file(descriptor: int) -> bool:
    """Lock a file on Windows if that is possible without blocking; return whether it is locked now.

    The lock ends when the file is closed.

    :raises OSError: it cannot be locked at all.
    """
    if sys.platform == "win32":
        place = (ctypes.c_uint64 * 4)()  # OVERLAPPED: from the first byte, no event
        if _kernel().LockFileEx(msvcrt.get_osfhandle(descriptor), _EXCLUSIVE_NOW, 0, 1, 0, place):
            return True
        error = _failed()
        if error.winerror not in (_LOCK_VIOLATION, _IO_PENDING):
            raise error
        return False
    raise NotImplementedError


def read_access_list(path: str, folder: bool) -> AccessList:
    """Return who else has rights on Windows.

    On a file system without such lists everyone has all rights. An entry of a kind that is unknown here counts as one for
    everyone.

    :param folder: whether the path is a folder; others may read the names in it.
    :raises OSError: the list cannot be read.
    """
    if sys.platform == "win32":
        security = _security()
        owner, entries, descriptor = _P(), _P(), _P()
        status = security.GetNamedSecurityInfoW(path, _FILE_OBJECT, _OWNER | _LIST, ctypes.byref(owner), None,
                                                ctypes.byref(entries), None, ctypes.byref(descriptor))
        if status:
            raise _failed(status)
        try:
            trusted = _TRUSTED | {_our_user()}
            owner_text = _text_of(owner) if owner.value else _EVERYONE
            return AccessList("" if owner_text in trusted else owner_text,
                              _others(entries, folder, trusted) if entries.value else [_EVERYONE])
        finally:
            _kernel().LocalFree(descriptor)
    raise NotImplementedError
