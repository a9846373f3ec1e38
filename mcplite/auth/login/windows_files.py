"""Files on Windows: access lists, which are there in place of the modes of POSIX, and locks between processes.

A module of its own, since only the functions of the system, called by ``ctypes``, can do this. :mod:`.file_store` uses it on
Windows alone.
"""

import sys
from typing import Any

__all__ = ["lock_file", "make_own_folder", "open_own_file"]

if sys.platform == "win32":
    import ctypes
    import functools
    import msvcrt
    import os
    from ctypes import wintypes

    _READ, _WRITE = 0x80000000, 0x40000000
    #: Others may read and write meanwhile, and not remove: so does os.open.
    _SHARE = 3
    _CREATE_NEW, _OPEN_EXISTING, _OPEN_ALWAYS = 1, 3, 4
    #: FILE_FLAG_OPEN_REPARSE_POINT: a link is opened, and not what it leads to.
    _NO_FOLLOW = 0x00200000
    #: LOCKFILE_EXCLUSIVE_LOCK and LOCKFILE_FAIL_IMMEDIATELY; and the two errors that say that another has the lock.
    _EXCLUSIVE_NOW, _LOCK_VIOLATION, _IO_PENDING = 3, 33, 997
    _INVALID = ctypes.c_void_p(-1).value

    class _Attributes(ctypes.Structure):
        _fields_ = [("nLength", wintypes.DWORD), ("lpSecurityDescriptor", ctypes.c_void_p), ("bInheritHandle", wintypes.BOOL)]

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
            ConvertStringSecurityDescriptorToSecurityDescriptorW=(wintypes.BOOL, wintypes.LPCWSTR, wintypes.DWORD, _P, _P))

    def _failed() -> OSError:
        return ctypes.WinError(ctypes.get_last_error())

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

    class _OwnAttributes:
        """The security attributes of a new file or folder: one user, and no rights from the folder above."""

        def __enter__(self) -> Any:
            user = _our_user()
            # An owner that is named here is not the group of administrators, as it would be where one of them runs this.
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
