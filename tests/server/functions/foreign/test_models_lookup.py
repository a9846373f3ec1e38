"""What all libraries have in common: no imports of ours, random values, and the same classes over the wire."""

import subprocess
import sys
from pathlib import Path

import pytest

import mcplite

ROOT = Path(mcplite.__file__).resolve().parent.parent
LIBRARIES = ["pydantic", "pydantic_core", "annotated_types", "attr", "attrs", "msgspec", "numpy", "pandas"]

PLAIN = """
import dataclasses, enum, sys, datetime, types
from typing import Annotated, Dict, List, Literal, Optional, Union
sys.path.insert(0, {root!r})
import mcplite

class Color(enum.Enum):
    RED = "red"

class Opaque:
    pass

@dataclasses.dataclass
class Point:
    x: int
    y: Annotated[int, "text", {{"minimum": 0}}] = 0

mcp = mcplite.Server("plain")

@mcp.tool()
def plain(a: int, point: Point, color: Color = Color.RED, days: Annotated[Optional[List[datetime.date]], "Days"] = None,
          either: Union[int, str] = 3) -> Dict[str, Point]:
    return {{"p": point}}

with mcplite.connect(mcp) as client:
    assert client.call_tool("plain", {{"a": 1, "point": {{"x": 1}}}}).structured_content == {{"p": {{"x": 1, "y": 0}}}}
    assert client.call_tool("plain", {{"a": "1", "point": 3}}).is_error
assert not [name for name in sys.modules if name.startswith("mcplite.server.functions.foreign")], "only where it is needed"

def odd(a: Annotated[int, Opaque()]) -> Opaque:
    return Opaque()

def worse(a: Opaque) -> None: ...

mcp.add_tool(odd)
try:
    mcp.add_tool(worse)
except mcplite.errors.RegistrationError:
    pass
with mcplite.connect(mcp) as client:
    assert client.call_tool("odd", {{"a": 1}}).is_error
print(" ".join(name for name in {libraries!r} if name in sys.modules))
"""


@pytest.mark.slow
def test_no_library_is_imported_that_the_user_has_not_imported():
    # jsonschema imports attrs itself, so that the libraries before and after are compared without it.
    code = PLAIN.format(root=str(ROOT), libraries=[name for name in LIBRARIES if name not in ("attr", "attrs")])
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().split() == []


@pytest.mark.parametrize("library, names", [
    ("pydantic", "class It(pydantic.BaseModel):\n    a: int\nvalue = It(a=1)"),
    ("attrs", "@attrs.define\nclass It:\n    a: int\nvalue = It(1)"),
    ("msgspec", "class It(msgspec.Struct):\n    a: int\nvalue = It(1)"),
    ("numpy", "It = numpy.ndarray\nvalue = numpy.array([1])"),
])
def test_one_library_does_not_bring_another(library, names):
    pytest.importorskip(library, reason="it is used by those who have it")
    code = (f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nimport {library}\n{names}\nimport mcplite\n"
            f"before = set(sys.modules)\nmcp = mcplite.Server('s')\n"
            f"def it(it: It) -> It:\n    return value\nmcp.add_tool(it)\n"
            f"with mcplite.connect(mcp) as client:\n    client.call_tool('it', {{'it': {{'a': 1}}}})\n"
            f"own = {{'pydantic': 'pydantic_core', 'attrs': 'attr'}}.get({library!r})\n"
            f"after = {{name.partition('.')[0] for name in set(sys.modules) - before}}\n"
            f"print(*[name for name in after if name in {LIBRARIES!r} and name not in ({library!r}, own, 'attr', 'attrs')])\n")
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout.decode().split() == []
