"""Structured output from a dataclass, and a dataclass as a parameter."""
from dataclasses import dataclass
from typing import List

from fastmcp import FastMCP

mcp = FastMCP("people")


@dataclass
class Person:
    name: str
    age: int
    nicknames: List[str]


@mcp.tool
def find_person(name: str) -> Person:
    """Look a person up."""
    return Person(name=name, age=36, nicknames=["the countess"])


@mcp.tool
def greet(person: Person) -> str:
    """Greet a person."""
    return f"Hello {person.name} ({person.age})"


if __name__ == "__main__":
    mcp.run()
