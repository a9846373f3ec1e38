"""The workloads of a server that is made of an OpenAPI document: its start, its list, and a call beside plain ``requests``.

The document has a thousand operations. The floor of the start is a program that reads the file. The floor of a call is
``requests`` with a session, which sends the same request to the same API: what is left is the way of a call from a client
through the server in one process. fastmcp makes its server of the same document.
"""

import contextlib
import functools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping

from .peers import Driver, Failed, Peer, WebServer, run
from .slices import Measurement, take_turns
from .workloads import Counts, Peers, close, failed, one_processor, seconds, warm_up

__all__ = ["API_WORKLOADS", "document_of"]

#: Of the document, besides one for each tool.
_SCHEMAS, _MEMBERS = 100, 12
_NAMES = ("floor", "ours", "before", "fastmcp")


def document_of(operations: int) -> Dict[str, Any]:
    """Return a document with that many operations, at least one: ``read_item``, and others that refer to shared schemas."""
    schemas: Dict[str, Any] = {f"Kind{number}": {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer", "description": "The number of the thing."},
        "next": {"$ref": f"#/components/schemas/Kind{(number + 1) % _SCHEMAS}"} if number % 5 else {"type": "string"},
        **{f"member_{at}": {"type": "string", "nullable": at % 3 == 0, "maxLength": 200, "description": "A text of the thing."}
           for at in range(_MEMBERS)}}} for number in range(_SCHEMAS)}
    schemas["Item"] = {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"}, "name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}

    def parameter(name: str, place: str, kind: str) -> Dict[str, Any]:
        return {"name": name, "in": place, "required": place == "path", "schema": {"type": kind}}

    def response(name: str) -> Dict[str, Any]:
        return {"200": {"description": "It is there.", "content": {"application/json": {
            "schema": {"$ref": f"#/components/schemas/{name}"}}}}}

    paths: Dict[str, Any] = {"/items/{id}": {"get": {
        "operationId": "read_item", "summary": "Read an item.", "responses": response("Item"),
        "parameters": [parameter("id", "path", "integer"), parameter("limit", "query", "integer")]}}}
    for number in range(operations - 1):
        kind = f"Kind{number % _SCHEMAS}"
        operation = {"operationId": f"operation_{number}", "tags": [f"group{number % 20}"],
                     "summary": f"Do the thing {number}.",
                     "description": "Does it to the thing that is named, and returns the thing as it is now.",
                     "parameters": [parameter("id", "path", "string"), parameter("page", "query", "integer"),
                                    parameter("sort", "query", "string")], "responses": response(kind)}
        if number % 2:
            operation["requestBody"] = {"required": True, "content": {"application/json": {
                "schema": {"$ref": f"#/components/schemas/{kind}"}}}}
        paths[f"/things{number}/{{id}}"] = {"put" if number % 2 else "get": operation}
    return {"openapi": "3.0.3", "info": {"title": "Things", "version": "1.0"}, "servers": [{"url": "https://api.example"}],
            "paths": paths, "components": {"schemas": schemas}}


@contextlib.contextmanager
def _files(operations: int) -> "Iterator[str]":
    """Yield the path of the document."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "things.json"
        path.write_text(json.dumps(document_of(operations)), "utf-8")
        yield str(path)


def _programs(peers: Peers) -> Mapping[str, Peer]:
    """Return what is measured, with the programs of these workloads."""
    return {name: Peer(peers[name].name, f"{peers[name].prefix}_api", peers[name].python, root=peers[name].root)
            for name in _NAMES if name in peers}


def start(peers: Peers, counts: Counts) -> List[Measurement]:
    """A program that makes a server of the document and lists its tools, from its start to its end."""
    row = Measurement("openapi.start", f"OpenAPI, {counts.tools:,} operations: a program that lists them (floor: reads it)",
                      "ms")

    def listed(program: Peer, path: str) -> float:
        def step() -> None:
            found = run(program.driver("http://127.0.0.1:9", path), program.root)
            if found != str(counts.tools):
                raise Failed(f"{program.name} listed {found!r}, not {counts.tools} tools")

        return 1000 * seconds(step)

    with _files(counts.tools) as path:
        # Half of the other starts: one program takes ten seconds.
        take_turns(row, counts.starts // 2 + 1, {name: functools.partial(listed, program, path)
                                        for name, program in _programs(peers).items()}, failed)
    return [row]


def calls(peers: Peers, counts: Counts) -> List[Measurement]:
    """Sequential calls of one tool, from a client in the server's process: the median time of a call."""
    row = Measurement("openapi.call", "OpenAPI, a GET with an item in JSON (floor: requests)", "us")
    with one_processor(), _files(counts.tools) as path, contextlib.ExitStack() as stack:
        api = WebServer(Peer("the API", "api", peers["floor"].python), "json")
        stack.callback(api.close)
        drivers: Dict[str, Driver] = {}
        for name, program in _programs(peers).items():
            try:
                drivers[name] = Driver(program, api.url, document=path)
                stack.callback(close, drivers[name])
            except Failed as error:
                row.failures[name] = str(error)
        warm_up(drivers, row, lambda driver: driver.ask("call", count=counts.warm_up))
        take_turns(row, counts.rounds, {name: (lambda driver=driver: statistics.median(
            driver.ask("call", count=counts.calls)) / 1000) for name, driver in drivers.items()}, failed)
    return [row]


#: By the name for ``--only``.
API_WORKLOADS: Dict[str, Callable[[Peers, Counts], List[Measurement]]] = {"openapi-start": start, "openapi-call": calls}
