"""Functions with pydantic's types, served by mcplite, called by the official SDK, and registered in both.

    python typed.py serve              our server on stdin and stdout
    python typed.py call [MODE]        the SDK's client starts it, and prints what it saw as one JSON object
    python typed.py schemas            prints the schemas that the SDK's server and ours make

Runs in an environment with ``mcp`` 1 or 2, which brings pydantic; our package is found by PYTHONPATH.
"""

import datetime
import enum
import json
import os
import sys
from typing import Annotated, Dict, List, Literal, Optional, Union

from pydantic import BaseModel, Field, PositiveInt, RootModel, field_validator


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    """A place."""

    zip_code: str = Field(pattern=r"^\d{5}$", title="ZIP")
    city: str = "Rome"


class User(BaseModel):
    name: str = Field(min_length=1, description="Full name", examples=["Ann"])
    age: Annotated[int, Field(ge=0, le=150)] = 3
    mail: Optional[str] = Field(None, alias="eMail")
    color: Color = Color.RED
    born: Optional[datetime.date] = None
    addresses: List[Address] = Field(default_factory=list)
    scores: Dict[str, float] = {}

    @field_validator("name")
    @classmethod
    def no_x(cls, value):
        if value == "x":
            raise ValueError("x is no name")
        return value


class Tree(BaseModel):
    value: int
    children: List["Tree"] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str


class Numbers(RootModel[List[int]]):
    pass


def register(user: User, notify: bool = False) -> User:
    """Register a user."""
    return user.model_copy(update={"age": user.age + notify})


def search(text: Annotated[str, Field(description="Words", min_length=2)], limit: int = Field(default=10, ge=1, le=50),
           size: PositiveInt = 1, order: Optional[str] = Field(None, alias="sortBy")) -> List[Address]:
    """Search."""
    return [Address(zip_code="00100", city=f"{text} {limit} {order}")]


def plant(tree: Tree, pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")], numbers: Numbers) -> Tree:
    """Plant a tree."""
    return Tree(value=sum(numbers.root), children=[tree])


FUNCTIONS = [register, search, plant]


def our_server():
    import mcplite

    server = mcplite.Server("typed")
    for function in FUNCTIONS:
        server.add_tool(function)
    return server


def schemas():
    import anyio

    import mcplite

    try:
        from mcp.server.mcpserver import MCPServer as Theirs
    except ImportError:
        from mcp.server.fastmcp import FastMCP as Theirs
    theirs = Theirs("typed")
    for function in FUNCTIONS:
        theirs.add_tool(function)
    with mcplite.connect(our_server()) as client:
        ours = {tool.name: {"input": tool.input_schema, "output": tool.output_schema} for tool in client.list_tools()}
    listed = [tool.model_dump(by_alias=True, mode="json") for tool in anyio.run(theirs.list_tools)]
    print(json.dumps({"ours": ours, "theirs": {
        tool["name"]: {"input": tool["inputSchema"], "output": tool["outputSchema"]} for tool in listed}}))


async def call():
    from mcp import ClientSession, StdioServerParameters, stdio_client

    environment = {"PYTHONPATH": os.environ["PYTHONPATH"]}
    server = StdioServerParameters(command=sys.executable, args=[__file__, "serve"], env=environment)
    async with stdio_client(server) as streams, ClientSession(*streams) as session:
        await session.initialize()
        listed = await session.list_tools()

        async def result(name, arguments):
            # The SDK checks the structured content against the output schema.
            found = await session.call_tool(name, arguments)
            return found.model_dump(by_alias=True, mode="json", exclude_unset=True)

        ann = User(name="Ann", eMail="a@b", born=datetime.date(2024, 5, 6), addresses=[Address(zip_code="00100")])
        sent = ann.model_dump(by_alias=True, mode="json")
        report = {
            "tools": [tool.model_dump(by_alias=True, mode="json")["name"] for tool in listed.tools], "sent": sent,
            "register": await result("register", {"user": sent, "notify": True}),
            "search": await result("search", {"text": "tea", "sortBy": "age"}),
            "plant": await result("plant", {"tree": {"value": 1}, "pet": {"kind": "dog", "bark": "w"}, "numbers": [1, 2]}),
            "bad": await result("register", {"user": {"name": "x", "addresses": [{"zip_code": "1"}]}}),
        }
        report["same"] = User.model_validate(report["register"]["structuredContent"]) == ann.model_copy(update={"age": 4})
        print(json.dumps(report))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        our_server().run()
    elif sys.argv[1] == "schemas":
        schemas()
    else:
        import anyio

        anyio.run(call)
