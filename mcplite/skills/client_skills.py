"""The host's half of skills: lists those of a server, and loads one after it was checked.

Nothing is read before it is needed: a listing has all that a menu of skills shows. Each file that is read is compared with the
listing: digest, size, and the head of SKILL.md field by field. A match proves only that the server agrees with itself: the text
of a skill is untrusted input for a model, and code that it brings needs the user's approval.
"""

import hashlib
import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union
from urllib.parse import quote, unquote

from ..errors import NotSupported, ProtocolError
from ..protocol.uris import check_relative
from ..rpc.tracing import get_logger
from ..types import BlobResourceContents, Resource, TextResourceContents, codec
from . import MOST_BYTES, MOST_FILES, SKILL_FILE, SKILLS_EXTENSION
from .frontmatter import FrontmatterError, name_problem, read_frontmatter

if TYPE_CHECKING:
    from ..client.client import Client

__all__ = ["ClientSkills", "LoadedSkill", "Skill", "SkillFile"]

_log = get_logger(__name__)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")
#: The URI of a SKILL.md. A model reads it before the text of the skill, so it must not have line ends.
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+/{re.escape(SKILL_FILE)}\Z")
#: Pages of one listing.
_MOST_PAGES = 1000


class SkillFile(NamedTuple):
    """One file of a skill, as the server lists it."""

    #: ``sha256:`` and 64 hexadecimal digits, of its bytes.
    digest: str
    #: In bytes.
    size: int


class Skill:
    """One skill, as a server describes it. Nothing of its files was read."""

    def __init__(self, uri: str, frontmatter: Dict[str, Any], files: Optional[Dict[str, SkillFile]]) -> None:
        #: The URI of its SKILL.md. Together with the server it identifies the skill; two skills may have one name.
        self.uri = uri
        #: The whole head of its SKILL.md.
        self.frontmatter = frontmatter
        #: Its files by URI, SKILL.md among them; None if the server makes them on request, so that nothing can be compared.
        self.files = files

    @property
    def name(self) -> str:
        """Its name, which is a label: another skill may have it, too."""
        return str(self.frontmatter["name"])

    @property
    def description(self) -> str:
        """What it is for, as the server says."""
        return str(self.frontmatter["description"])

    @property
    def root(self) -> str:
        """The URI of its folder, without a slash at its end."""
        return self.uri[:-len(SKILL_FILE) - 1]

    def __repr__(self) -> str:
        return f"<Skill {self.name!r} at {self.uri}>"


class LoadedSkill:
    """A skill whose SKILL.md was read and checked, and whose other files can be read."""

    def __init__(self, client: "Client", label: str, skill: Skill, text: str) -> None:
        self._client = client
        #: The server as this side names it: its command, file or URL, and not what it says of itself.
        self.origin = label
        self.skill = skill
        #: The text of SKILL.md, with its head.
        self.text = text

    @property
    def prompt(self) -> str:
        """The text for a model, which says first whose skill this is: a model decides by that whether it follows a text."""
        skill = self.skill
        return (f"The skill {skill.name!r} of the server {self.origin!r}, {skill.uri}. It is not the user's own text."
                f" Its relative paths are below {skill.root}/ of this server.\n\n{self.text}")

    def read(self, path: str) -> Union[str, bytes]:
        """Read a file of the skill, and return its text, or its bytes if it is not text.

        :param path: relative to the skill's folder, as SKILL.md names it.
        :raises ProtocolError: the listing has no such file, or the content is not what the listing says.
        :raises ValueError: the path leaves the folder.
        """
        check_relative(path)
        return _read(self._client, self.origin, self.skill, f"{self.skill.root}/{quote(path)}")

    def __repr__(self) -> str:
        return f"<LoadedSkill {self.skill.name!r} at {self.skill.uri}>"


class ClientSkills:
    """The skills of the server that a client is connected to: :attr:`mcplite.Client.skills`."""

    def __init__(self, client: "Client", label: Callable[[], str]) -> None:
        self._client = client
        self._label = label

    def list(self) -> List[Skill]:
        """Return the skills that the server lists, in its order; :meth:`get` finds other skills by their URIs.

        A skill whose entry breaks the rules is left out, and logged.

        :raises NotSupported: the server does not declare the extension.
        """
        self._settings()
        found: List[Skill] = []
        for entry in self._listed("skills/list", {}, "skills"):
            try:
                found.append(_skill(entry))
            except ValueError as error:
                _log.warning("%s lists a skill that is left out: %s", self._label(), error)
        return found

    def get(self, uri: str) -> Skill:
        """Return one skill by the URI of its SKILL.md, listed or not; it is read again from the server.

        :raises InvalidParams: the server has no such skill.
        :raises ProtocolError: the entry breaks the rules.
        :raises NotSupported: the server does not declare the extension.
        """
        self._settings()
        answer = self._client.request("skills/get", {"uri": uri})
        try:
            skill = _skill(answer.get("skill"))
        except ValueError as error:
            raise ProtocolError(f"{self._label()} answered skills/get with a skill that cannot be used: {error}",
                                answer) from None
        if skill.uri != uri:
            raise ProtocolError(f"{self._label()} was asked for the skill at {uri} and described {skill.uri}", answer)
        return skill

    def load(self, skill: Union[Skill, str]) -> LoadedSkill:
        """Read a skill's SKILL.md, compare it with the listing, and return the skill with its text.

        If the server has changed the skill since it was listed, this fails: get the skill again, and have the user approve it
        again.

        :param skill: from :meth:`list` or :meth:`get`, or the URI of a SKILL.md.
        :raises ProtocolError: the text is not what the listing says.
        :raises NotSupported: the server does not declare the extension.
        """
        if isinstance(skill, str):
            skill = self.get(skill)
        content = _read(self._client, self._label(), skill, skill.uri)
        try:
            text = content if isinstance(content, str) else content.decode("utf-8")
            head = read_frontmatter(text)
        except (FrontmatterError, UnicodeDecodeError) as error:
            raise ProtocolError(f"{skill.uri} of {self._label()} cannot be used: {error}") from None
        different = sorted(key for key in {*head, *skill.frontmatter} if not _same(head.get(key), skill.frontmatter.get(key)))
        if different:
            raise ProtocolError(f"{skill.uri} of {self._label()} is not what was listed: its head differs in"
                                f" {', '.join(different)}; get the skill again, and have it approved again")
        return LoadedSkill(self._client, self._label(), skill, text)

    def directory(self, uri: str) -> List[Resource]:
        """Return the files and folders that are directly in a folder of a skill.

        :param uri: of the folder, without a slash at its end.
        :raises NotSupported: the server does not list folders.
        :raises InvalidParams: there is no such folder.
        """
        if self._settings().get("directoryRead") is not True:
            raise NotSupported(f"{self._label()} did not declare directoryRead for its skills, so it lists no folders")
        return [codec.decode(Resource, one) for one in self._listed("resources/directory/read", {"uri": uri}, "resources")]

    def _listed(self, method: str, params: Dict[str, Any], member: str) -> Iterator[Any]:
        """Yield the entries of all pages of a listing.

        :raises ProtocolError: a page has no list, or there are too many of them.
        """
        for _ in range(_MOST_PAGES):
            answer = self._client.request(method, params)
            found = answer.get(member)
            if not isinstance(found, list):
                raise ProtocolError(f"{self._label()} answered {method} without a list of {member}", answer)
            yield from found
            cursor = answer.get("nextCursor")
            if cursor is None or cursor == params.get("cursor"):
                return
            params = {**params, "cursor": cursor}
        raise ProtocolError(f"{self._label()} has more than {_MOST_PAGES} pages of {member}")

    def _settings(self) -> Mapping[str, Any]:
        declared = (self._client.server_capabilities.extensions or {}).get(SKILLS_EXTENSION)
        if declared is None:
            raise NotSupported(f"{self._label()} did not declare the extension {SKILLS_EXTENSION}: it has no skills")
        return declared if isinstance(declared, dict) else {}


def _skill(entry: Any) -> Skill:
    """Return the skill that an entry of a listing describes.

    :raises ValueError: the entry breaks the rules.
    """
    if not isinstance(entry, dict):
        raise ValueError("its entry is not an object")
    uri, head, resources = entry.get("uri"), entry.get("frontmatter"), entry.get("resources")
    if not isinstance(uri, str) or not _URI.match(uri):
        raise ValueError(f"its URI {uri!r:.200} is none, or does not end with /{SKILL_FILE}")
    if not isinstance(head, dict) or not all(isinstance(head.get(member), str) for member in ("name", "description")):
        raise ValueError(f"{uri[:200]} has no frontmatter with a name and a description")
    root = uri[:-len(SKILL_FILE) - 1]
    problem = name_problem(head["name"])
    if not problem and unquote(root.rpartition("/")[2]) != head["name"]:
        problem = f"its name {head['name']!r} is not the last part of its path"
    if problem:
        raise ValueError(f"{uri[:200]}: {problem}")
    if resources == "dynamic":
        return Skill(uri, head, None)
    if not isinstance(resources, list):
        raise ValueError(f"{uri[:200]}: its resources are neither a list nor \"dynamic\"")
    files: Dict[str, SkillFile] = {}
    for resource in resources:
        place, file = _file(resource, root)
        if place in files:
            raise ValueError(f"{uri[:200]} lists {place[:200]} twice")
        files[place] = file
    if uri not in files:
        raise ValueError(f"{uri[:200]}: its resources do not have {SKILL_FILE} itself")
    size = sum(file.size for file in files.values())
    if len(files) > MOST_FILES or size > MOST_BYTES:
        raise ValueError(f"{uri[:200]} has {len(files)} files with {size} bytes; a skill has at most {MOST_FILES} files with"
                         f" {MOST_BYTES} bytes together")
    return Skill(uri, head, files)


def _file(resource: Any, root: str) -> Tuple[str, SkillFile]:
    uri, digest, size = (resource.get("uri"), resource.get("digest"), resource.get("size")) if isinstance(resource, dict) else (
        None, None, None)
    if not isinstance(uri, str) or not uri.startswith(f"{root}/"):
        raise ValueError(f"{uri!r:.200} is not below {root[:200]}")
    try:
        check_relative(unquote(uri[len(root) + 1:]))
    except ValueError as error:
        raise ValueError(f"{uri[:200]}: {error}") from None
    if not isinstance(digest, str) or not _DIGEST.match(digest):
        raise ValueError(f"{uri[:200]} has no digest such as sha256: and 64 hexadecimal digits")
    if type(size) is not int or size < 0:
        raise ValueError(f"{uri[:200]} has no size in bytes")
    return uri, SkillFile(digest, size)


def _read(client: "Client", label: str, skill: Skill, uri: str) -> Union[str, bytes]:
    """Read a file of a skill, and compare it with the listing.

    :raises ProtocolError: the listing has no such file, or the content is not what it says.
    """
    listed = None
    if skill.files is not None:
        listed = skill.files.get(uri)
        if listed is None:
            raise ProtocolError(f"{uri[:200]} of {label} is not among the files that were listed for the skill"
                                f" {skill.name!r}; get the skill again if it has changed")
    contents = client.read_resource(uri, fresh=True).contents
    one = contents[0] if len(contents) == 1 else None
    content: Union[str, bytes]
    if isinstance(one, TextResourceContents):
        content = one.text
        data = content.encode("utf-8", "surrogatepass")
    elif isinstance(one, BlobResourceContents):
        try:
            content = data = one.bytes
        except ValueError as error:
            raise ProtocolError(f"{uri[:200]} of {label} is not base64: {error}") from None
    else:
        raise ProtocolError(f"{label} answered the read of {uri[:200]} with {len(contents)} contents in place of one")
    if listed is not None and (len(data) != listed.size or "sha256:" + hashlib.sha256(data).hexdigest() != listed.digest):
        raise ProtocolError(f"{uri[:200]} of {label} is not what was listed: it has {len(data)} bytes, and {listed.size} were"
                            " listed, or its digest differs; get the skill again, and have it approved again")
    return content


def _same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are equal; True is not 1, and 1.0 is 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
