"""Serves skills: folders with a SKILL.md, whose files are resources, and the methods that describe them.

Each file of a skill is a resource below ``skill://PATH``, and SKILL.md is in the list of resources. The skills are found when
their folder is added; their files are looked at again for each request, and a file of another size or time is read again, so it
has its new digest at once.
"""

import hashlib
import os
import threading
from typing import Any, Dict, Iterator, List, Optional, Tuple
from urllib.parse import quote, unquote

from ..errors import InvalidParams, RegistrationError, ResourceNotFound
from ..protocol.uris import normal_uri
from ..rpc.extension import Extension
from ..rpc.tracing import get_logger
from ..server.app import Server
from ..server.catalog.directory import Directory, DirectoryFile, FileTooLarge, NotBelow, media_type, read_below
from ..server.catalog.entries import directory_entries
from ..types import ResourceTemplate, TextResourceContents
from . import MOST_BYTES, MOST_FILES, SKILL_FILE, SKILLS_EXTENSION
from .frontmatter import FrontmatterError, name_problem, read_frontmatter

__all__ = ["ServerSkills", "add_skills"]

_log = get_logger(__name__)
#: A page of skills ends when its entries have so many files together; a page of a folder has so many children at most.
_PAGE = 1000
#: Milliseconds for which a host may take a listing for fresh.
_TTL = 60_000


def add_skills(server: Server, folder: str, prefix: str) -> None:
    """Serve the skills in a folder; see :meth:`Server.add_skills`."""
    root = os.path.abspath(folder)
    if not os.path.isdir(folder):  # an empty name is that of no folder, although abspath() takes it for the current one
        raise RegistrationError(f"add_skills({os.fspath(folder)!r}): {root} is not a directory")
    segments = [quote(segment, safe="") for segment in prefix.split("/") if segment]
    if {".", ".."}.intersection(segments):
        raise RegistrationError(f"add_skills(prefix={prefix!r}): a prefix has names as in 'team/billing', without . and ..")
    found = [ServedSkill(path, "/".join([*segments, *(quote(name, safe="") for name in names)]), server.limits.file_bytes)
             for path, names in _skill_folders(root)]
    if not found:
        raise RegistrationError(f"add_skills({os.fspath(folder)!r}): there is no {SKILL_FILE} in {root} or a folder below it")
    server.runtime.add_extension(ServerSkills(), known=True)
    extension = server.runtime.extension(SKILLS_EXTENSION)
    if not isinstance(extension, ServerSkills):
        raise RegistrationError(f"another extension is registered as {SKILLS_EXTENSION}: leave it out, and use add_skills"
                                " alone")
    extension.add(found)
    for skill in found:
        head = skill.frontmatter
        template = ResourceTemplate(uri_template="", name=head["name"], description=f"Files of the skill {head['name']}")
        for entry in directory_entries(skill.directory, template, False, ()):
            entry.unlisted = True
            server.registry.add(entry)
        server.add_resource(skill.uri, skill.text, name=head["name"], description=head["description"],
                            mime_type="text/markdown")


def _skill_folders(root: str) -> Iterator[Tuple[str, List[str]]]:
    """Yield the folders with a SKILL.md, each with the names that lead to it; the root with its own name."""
    for path, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if SKILL_FILE in files:
            names = [] if path == root else os.path.relpath(path, root).split(os.sep)
            yield path, names or [os.path.basename(root)]


class ServedSkill:
    """One skill: its folder, and its entry in ``skills/list``.

    :param path: of the folder.
    :param skill_path: its place among the server's skills, escaped.
    :param limit: bytes that a file may have.
    :raises RegistrationError: it is not a valid skill.
    """

    def __init__(self, path: str, skill_path: str, limit: int) -> None:
        self._path = path
        self._limit = limit
        #: The URI of the folder, without a slash at its end.
        self.root = normal_uri(f"skill://{skill_path}")
        self.uri = f"{self.root}/{SKILL_FILE}"
        self.directory = Directory(self.root, path, limit, MOST_FILES + 1)
        #: By path: size, time of the last change, and digest. It is replaced, never changed, so it needs no lock.
        self._digests: Dict[str, Tuple[int, int, str]] = {}
        try:
            self.frontmatter = self.entry()["frontmatter"]
        except ValueError as error:
            raise RegistrationError(f"{os.path.join(path, SKILL_FILE)}: {error}") from None

    def text(self) -> str:
        """Return the text of SKILL.md.

        :raises ResourceNotFound: it is gone, too large, or not UTF-8.
        """
        try:
            return self._read(SKILL_FILE).decode("utf-8")
        except (NotBelow, FileTooLarge, UnicodeDecodeError) as error:
            raise ResourceNotFound(f"Resource not found: {self.uri}", data={"uri": self.uri}) from error

    def entry(self) -> Dict[str, Any]:
        """Return the entry of the skill in the lists: its head, and each file with its digest and size.

        :raises ValueError: it is not a valid skill at the moment.
        """
        files = self.directory.files()
        size = sum(file.size for file in files)
        if len(files) > MOST_FILES or size > MOST_BYTES:
            raise ValueError(f"the folder has {len(files)} files with {size} bytes; a skill has at most {MOST_FILES} files with"
                             f" {MOST_BYTES} bytes together")
        try:
            data = self._read(SKILL_FILE)
            head = read_frontmatter(data.decode("utf-8"))
        except (NotBelow, FileTooLarge) as error:
            raise ValueError(f"it cannot be read: {str(error) or 'it is gone, or no file below the folder'}") from error
        if head["name"] != unquote(self.root.rpartition("/")[2]):
            raise FrontmatterError(f"the name {head['name']!r} is not that of the folder,"
                                   f" {unquote(self.root.rpartition('/')[2])!r}")
        problem = name_problem(head["name"])
        if problem:
            raise FrontmatterError(problem)
        listed = [self._file(file) for file in files]
        return {"uri": self.uri, "frontmatter": head, "resources": [file for file in listed if file is not None]}

    def _file(self, file: DirectoryFile) -> Optional[Dict[str, Any]]:
        known = self._digests.get(file.path)
        if known is None or known[:2] != (file.size, file.changed):
            try:
                data = self._read(file.path)
            except (NotBelow, FileTooLarge):
                return None  # it was removed since the folder was listed
            known = (len(data), file.changed, "sha256:" + hashlib.sha256(data).hexdigest())
            self._digests = {**self._digests, file.path: known}
        return {"uri": self.directory.uri_of(file.path), "digest": known[2], "size": known[0]}

    def children(self, path: str) -> List[Dict[str, Any]]:
        """Return the files and folders in one folder of the skill as resources.

        :raises InvalidParams: there is no such folder.
        """
        uri = normal_uri(f"{self.root}/{quote(path)}") if path else self.root
        try:
            found: Any = self.directory.read(path)[0]
        except ResourceNotFound:
            found = None
        if not isinstance(found, TextResourceContents) or found.mime_type != "inode/directory":
            raise InvalidParams(f"there is no directory at {uri[:200]!r}", data={"uri": uri})
        children = []
        for name in found.text.split("\n") if found.text else []:
            plain = name.rstrip("/")
            kind = "inode/directory" if name.endswith("/") else media_type(plain)
            child: Dict[str, Any] = {"uri": f"{uri}/{quote(plain)}", "name": plain}
            if kind is not None:
                child["mimeType"] = kind
            children.append(child)
        return children

    def _read(self, path: str) -> bytes:
        data = read_below(self._path, path, self._limit)
        if isinstance(data, list):
            raise NotBelow
        return data


class ServerSkills(Extension):
    """The skills of one server, and the methods about them."""

    identifier = SKILLS_EXTENSION
    settings = {"directoryRead": True}

    def __init__(self) -> None:
        #: Guards the change of :attr:`_skills`, which is replaced, so that readers need no lock.
        self._lock = threading.Lock()
        #: By the URI of SKILL.md, in the order of these URIs.
        self._skills: Dict[str, ServedSkill] = {}

    def add(self, skills: List[ServedSkill]) -> None:
        """Add skills.

        :raises RegistrationError: one of their URIs is taken; then none is added.
        """
        with self._lock:
            for skill in skills:
                if skill.uri in self._skills:
                    raise RegistrationError(f"there is a skill at {skill.uri} already: give one of the folders a prefix=")
            self._skills = dict(sorted({**self._skills, **{skill.uri: skill for skill in skills}}.items()))

    def methods(self) -> Dict[str, Any]:
        return {"skills/list": self._list, "skills/get": self._get, "resources/directory/read": self._read_directory}

    def _list(self, params: Dict[str, Any], ctx: Any) -> Dict[str, Any]:
        entries: List[Dict[str, Any]] = []
        after, files = _cursor(params), 0
        for uri, skill in self._skills.items():
            if uri <= after:
                continue
            if files >= _PAGE:
                return {"skills": entries, "nextCursor": entries[-1]["uri"], **_hints(ctx)}
            try:
                entries.append(skill.entry())
            except ValueError as error:
                _log.warning("the skill at %s is not listed: %s", uri, error)
                continue
            files += len(entries[-1]["resources"])
        return {"skills": entries, **_hints(ctx)}

    def _get(self, params: Dict[str, Any], ctx: Any) -> Dict[str, Any]:
        uri = params.get("uri")
        skill = self._skills.get(uri) if isinstance(uri, str) else None
        if skill is None:
            raise InvalidParams(f"there is no skill at {uri!r:.200}: give the URI of a {SKILL_FILE}", data={"uri": uri})
        try:
            return {"skill": skill.entry(), **_hints(ctx)}
        except ValueError as error:
            raise InvalidParams(f"the skill at {uri} is not valid at the moment: {error}", data={"uri": uri}) from None

    def _read_directory(self, params: Dict[str, Any], ctx: Any) -> Dict[str, Any]:
        uri, after = params.get("uri"), _cursor(params)
        plain = normal_uri(uri).rstrip("/") if isinstance(uri, str) and uri.startswith("skill://") else ""
        skill = max((skill for skill in self._skills.values() if f"{plain}/".startswith(f"{skill.root}/")),
                    key=lambda skill: len(skill.root), default=None)
        if skill is None:
            raise InvalidParams(f"there is no directory at {uri!r:.200}", data={"uri": uri})
        children = [child for child in skill.children(unquote(plain[len(skill.root) + 1:])) if child["name"] > after]
        more = {"nextCursor": children[_PAGE - 1]["name"]} if len(children) > _PAGE else {}
        return {"resources": children[:_PAGE], **more}


def _cursor(params: Dict[str, Any]) -> str:
    cursor = params.get("cursor", "")
    if not isinstance(cursor, str):
        raise InvalidParams("params.cursor must be the nextCursor of the page before")
    return cursor


def _hints(ctx: Any) -> Dict[str, Any]:
    """Return the hints for caches, which the revision of July 2026 requires; clients of other revisions ignore them."""
    return {"ttlMs": _TTL, "cacheScope": "public" if ctx.principal is None else "private"}
