"""The command ``pack``: writes a server as a bundle that an application installs with a click, and the registry's server.json.

A bundle (.mcpb) is an archive with a manifest, the server's file, the modules beside it that it imports, and this package, so
that the machine of its user needs nothing but Python. Most bundles of Python servers hold compiled parts of one system; this
package has none. To find what the server imports, a process of its own loads it.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from typing import Any, Dict, List, Optional, Tuple

from ..protocol.error_text import one_line
from ..revisions import REGISTRY_SCHEMA
from ..version import __version__
from .parser import STATUS, UsageError
from .printing import as_json, clean

__all__ = ["HELP", "add_arguments", "description_of", "run"]

_PACKAGE = __name__.rpartition(".cli.")[0]
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Folders of this package that a server on stdio does not use, unless it imports them itself.
_LEFT_OUT = frozenset({"__pycache__", "cli", "inspector", "testing", "contrib", "llm"})
#: Libraries that this package may import, and that a bundle leaves out: a server on stdio whose schemas are made of annotations
#: does not use them.
_OPTIONAL = frozenset({"jsonschema", "requests", "yaml"})
#: The date of every entry of a bundle, so that equal files make an equal bundle.
_DATE = (1980, 1, 1, 0, 0, 0)
_COMPILED = (".so", ".pyd", ".dylib", ".dll")
_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?\Z")
_REGISTRY_NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+\Z")
#: Characters that the registry accepts: of a title and of a description, and of a version.
_MOST, _LONGEST_VERSION = 100, 255
_SCHEMA = f"https://static.modelcontextprotocol.io/schemas/{REGISTRY_SCHEMA}/server.schema.json"
#: A program for a process of its own: it loads the server as ``python -m mcplite.server`` does, and prints as JSON how the
#: server describes itself and which modules it has imported.
_PROGRAM = """
import json, os, sys
out, sys.stdout = sys.stdout, sys.stderr
before = set(sys.modules)
from {package} import connect
from {package}.server.program import LoadError, load
own = set(sys.modules)
try:
    server = load(sys.argv[1])
except LoadError as error:
    sys.exit(f"cannot serve {{sys.argv[1]}}: {{error}}")
with connect(server) as client:
    found = {{"name": server.name, "version": client.server_info.version, "title": client.server_info.title,
              "description": client.server_info.description, "instructions": client.instructions,
              "tools": [[tool.name, tool.description] for tool in client.list_tools()]
                       if client.server_capabilities.tools else []}}
found["modules"] = sorted((name, module.__file__) for name, module in list(sys.modules.items())
                          if name not in before and getattr(module, "__file__", None))
json.dump(found, out)
"""


HELP = """\
FILE is the Python file of a server on stdio, or FILE.py:NAME. The bundle has the file, the modules beside it
that it imports, pure Python packages that it imports, and PACKAGE itself: it runs wherever Python 3.9 or later
is. A package with a compiled part is refused, since such a bundle runs on one system only.

examples:
  %(prog)s pack weather.py
  %(prog)s pack weather.py --env API_KEY --include data --author Ann
  %(prog)s pack weather.py --server-json io.github.ann/weather --url https://example.com/weather-1.0.0.mcpb

""" + STATUS


def add_arguments(one: argparse.ArgumentParser, command: str) -> None:
    """Add the options of the command to its parser."""
    one.add_argument("--output", metavar="BUNDLE", help="where to write; default NAME-VERSION.mcpb in this folder")
    one.add_argument("--bundle-version", dest="version_of_bundle", metavar="VERSION",
                     help="such as 1.2.0; default that of the Server")
    one.add_argument("--description", metavar="TEXT", help="for people; default what the server says of itself")
    one.add_argument("--author", metavar="NAME", help="shown where the bundle is installed")
    one.add_argument("--env", action="append", default=[], metavar="KEY",
                     help="a variable that the server needs, and for which the application asks its user; repeatable")
    one.add_argument("--include", action="append", default=[], metavar="PATH",
                     help="a file or folder beside the server that it reads; repeatable")
    one.add_argument("--server-json", metavar="NAME",
                     help="also write server.json for the registry, with this name, such as io.github.ann/weather")
    one.add_argument("--url", metavar="URL", help="with --server-json: where the bundle can be downloaded")
    one.add_argument("--json", action="store_true", help="print the manifest, and what was written, as JSON")


def run(words: List[str], options: argparse.Namespace) -> int:
    """Write the bundle; return the exit status."""
    file, _, name = words[0].partition(".py:")
    path = os.path.abspath(file + ".py" if name or not file.endswith(".py") else file)
    if not os.path.isfile(path):
        raise UsageError(f"there is no file {path}: give the Python file of the server")
    _check_registry(options)
    found = _described(path + (f":{name}" if name else ""))
    manifest = _manifest(found, path, name, options)
    files = _files(path, found["modules"], options.include)
    output = os.path.abspath(options.output or f"{manifest['name']}-{manifest['version']}.mcpb")
    size = _write(output, manifest, files)
    said = {"bundle": output, "bytes": size, "files": len(files) + 1, "manifest": manifest}
    if options.server_json:
        said["server_json"] = _server_json(output, manifest, options)
    if options.json:
        print(as_json(said))
        return 0
    print(clean(f"{output}: {len(files) + 1} files, {size / 1024:.0f} KiB"))
    if options.server_json:
        print(clean(f"{said['server_json']}: for the registry"))
    return 0


def _check_registry(options: argparse.Namespace) -> None:
    name: Optional[str] = options.server_json
    if name is None:
        return
    if not _REGISTRY_NAME.match(name) or not 3 <= len(name) <= 200:
        raise UsageError(f"--server-json {name}: give the server's name in the registry, such as io.github.ann/notes")
    url: str = options.url or ""
    if not url.startswith("https://") or "mcp" not in url.lower() or url.split() != [url]:
        raise UsageError("--server-json needs --url: the https:// address from which the bundle can be downloaded, with mcp in"
                         f" it, as in weather.mcpb{', not ' + url if url else ''}")


def _described(target: str) -> Dict[str, Any]:
    """Return what the server says of itself, and which modules it has imported."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(_HOME), os.environ.get("PYTHONPATH", "")])}
    ran = subprocess.run([sys.executable, "-c", _PROGRAM.format(package=_PACKAGE), target], env=environment,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         cwd=os.path.dirname(target.partition(".py:")[0]) or None)
    if ran.returncode:
        raise UsageError(f"the server cannot be loaded:\n{ran.stderr.decode('utf-8', 'replace').strip()}")
    found: Dict[str, Any] = json.loads(ran.stdout)
    return found


def description_of(found: Dict[str, Any], given: Optional[str]) -> str:
    """Return what a server is for: *given*, its own description, the first line of its instructions, its tools, or its name."""
    first = (found["instructions"] or "").strip().partition("\n")[0]
    texts = (one_line(text or "") for text in (given, found["description"], first))
    return next(filter(None, texts), "") or one_line(", ".join(name for name, _ in found["tools"]) or found["name"])


def _cut(text: str) -> str:
    """Return the beginning of a text, as much as the registry takes."""
    head = text[:_MOST - 1]
    return text if len(text) <= _MOST else (head.rpartition(" ")[0] or head) + "\u2026"


def _manifest(found: Dict[str, Any], path: str, name: str, options: argparse.Namespace) -> Dict[str, Any]:
    """Return the manifest of the bundle."""
    version = options.version_of_bundle or found["version"] or "0.1.0"
    if not _SEMVER.match(version) or len(version) > _LONGEST_VERSION:
        raise UsageError(f"the version {version!r} is not one such as 1.2.0: give Server(version=...) or --bundle-version")
    script = f"${{__dirname}}/server/{os.path.basename(path)}"
    arguments = ["-m", f"{_PACKAGE.rpartition('.')[2]}.server", script + (f":{name}" if name else "")]
    env = {"PYTHONPATH": "${__dirname}/server/lib", "PYTHONDONTWRITEBYTECODE": "1"}
    settings = {}
    for variable in options.env:
        key = variable.partition("=")[0]
        if not re.fullmatch(r"[A-Za-z_]\w*", key) or "=" in variable:
            raise UsageError(f"--env {variable}: give the name of a variable; the application asks its user for the value")
        settings[key.lower()] = {"type": "string", "title": key, "description": f"The value of {key}", "required": True,
                                 "sensitive": True}
        env[key] = f"${{user_config.{key.lower()}}}"
    manifest: Dict[str, Any] = {
        "manifest_version": "0.3", "name": re.sub(r"[^A-Za-z0-9_-]+", "-", found["name"]).strip("-") or "server",
        "version": version, "description": description_of(found, options.description),
        "author": {"name": options.author or "unknown"},
        "server": {"type": "python", "entry_point": f"server/{os.path.basename(path)}",
                   # The program is called python3 on other systems, and python on Windows.
                   "mcp_config": {"command": "python3", "args": arguments, "env": env,
                                  "platform_overrides": {"win32": {"command": "python"}}}},
        "tools": [{"name": tool, **({"description": text} if text else {})} for tool, text in found["tools"]],
        "compatibility": {"platforms": ["darwin", "linux", "win32"], "runtimes": {"python": ">=3.9"}},
    }
    if found["title"]:
        manifest["display_name"] = found["title"]
    if settings:
        manifest["user_config"] = settings
    return manifest


def _files(path: str, modules: List[Tuple[str, str]], include: List[str]) -> Dict[str, str]:
    """Return the files of the bundle: where each is in it, and on this machine."""
    folder, files = os.path.dirname(path), {f"server/{os.path.basename(path)}": path}
    foreign: Dict[str, str] = {}
    own = [os.path.relpath(file, _HOME) for _, file in modules if _is_below(file, _HOME)]
    left_out = _LEFT_OUT.difference(*(file.split(os.sep) for file in own))
    for name, file in modules:
        top = name.partition(".")[0]
        inside = os.path.relpath(file, folder) if _is_below(file, folder) else ""
        parts = inside.split(os.sep)
        if _is_below(file, _HOME) or (_is_installed(file) and top in _OPTIONAL):
            continue
        if _is_installed(file):
            foreign.setdefault(top, file)
        elif inside and not any(part.startswith(".") for part in parts):
            files[f"server/{'/'.join(parts)}"] = file
        elif _is_below(file, os.path.dirname(os.__file__)):
            continue  # the standard library
        else:
            foreign.setdefault(top, file)
    for top, file in sorted(foreign.items()):
        files.update(_package_files(top, file))
    for given in include:
        files.update(_included(os.path.abspath(given), folder))
    for root, folders, names in os.walk(_HOME):
        folders[:] = [one for one in folders if one not in left_out]
        inside = os.path.relpath(root, os.path.dirname(_HOME)).replace(os.sep, "/")
        files.update({f"server/lib/{inside}/{one}": os.path.join(root, one) for one in names
                      if one.endswith((".py", ".typed"))})
    return files


def _package_files(top: str, file: str) -> Dict[str, str]:
    """Return the files of an installed package, which has to be pure Python."""
    base = os.path.dirname(file)
    while os.path.basename(base) != top and os.path.dirname(base) != base and os.path.exists(os.path.join(base, "__init__.py")):
        base = os.path.dirname(base)
    if os.path.basename(base) != top:
        if file.endswith(_COMPILED):
            raise UsageError(_compiled(top, file))
        return {f"server/lib/{os.path.basename(file)}": file}
    found = {}
    for root, folders, names in os.walk(base):
        folders[:] = [one for one in folders if one != "__pycache__"]
        for one in names:
            if one.endswith(_COMPILED):
                raise UsageError(_compiled(top, os.path.join(root, one)))
            inside = os.path.relpath(os.path.join(root, one), os.path.dirname(base)).replace(os.sep, "/")
            found[f"server/lib/{inside}"] = os.path.join(root, one)
    return found


def _compiled(top: str, file: str) -> str:
    return (f"the server imports {top}, which has a compiled part, {os.path.basename(file)}: a bundle with it runs on one"
            " system only. Import it where the function that needs it begins, so that a bundle works without it, or do"
            " without it")


def _included(path: str, folder: str) -> Dict[str, str]:
    """Return the files that --include names: a file, or all of a folder, below that of the server."""
    if not _is_below(path, folder) or not os.path.exists(path):
        raise UsageError(f"--include {path}: give a file or a folder that is below {folder}")
    paths = [path] if os.path.isfile(path) else [
        os.path.join(root, one) for root, folders, names in os.walk(path) if "__pycache__" not in root for one in names]
    return {f"server/{os.path.relpath(one, folder)}".replace(os.sep, "/"): one for one in paths}


def _is_below(file: str, folder: str) -> bool:
    return os.path.realpath(file).startswith(os.path.realpath(folder).rstrip(os.sep) + os.sep)


def _is_installed(file: str) -> bool:
    return bool({"site-packages", "dist-packages"} & set(os.path.normpath(file).split(os.sep)))


def _write(output: str, manifest: Dict[str, Any], files: Dict[str, str]) -> int:
    """Write the archive in one step; return its size in bytes."""
    partly = f"{output}.{os.getpid()}.tmp"
    try:
        with zipfile.ZipFile(partly, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "manifest.json", json.dumps(manifest, indent=2, ensure_ascii=False).encode())
            for inside, path in sorted(files.items()):
                with open(path, "rb") as file:
                    _add(archive, inside, file.read())
        os.replace(partly, output)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror or error}") from None
    finally:
        if os.path.exists(partly):
            os.unlink(partly)
    return os.path.getsize(output)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data)


def _server_json(bundle: str, manifest: Dict[str, Any], options: argparse.Namespace) -> str:
    """Write the registry's description of the bundle beside it; return its path."""
    with open(bundle, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    described = {
        "$schema": _SCHEMA, "name": options.server_json, "description": _cut(manifest["description"]),
        "version": manifest["version"],
        "packages": [{"registryType": "mcpb", "identifier": options.url, "version": manifest["version"], "fileSha256": digest,
                      "transport": {"type": "stdio"}}],
        "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"tool": f"mcplite {__version__}"}},
    }
    if manifest.get("display_name"):
        described["title"] = _cut(manifest["display_name"])
    path = os.path.join(os.path.dirname(bundle), "server.json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(described, indent=2, ensure_ascii=False) + "\n")
    return path
