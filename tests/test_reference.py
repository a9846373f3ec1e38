"""The reference of the API, in docs/reference: it has every public name, and each has a docstring."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import mcplite
from mcplite import auth, errors, extend, revisions, testing, types

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
TEXT = "".join(path.read_text("utf-8") for path in sorted(REFERENCE.glob("*.rst")))
#: Modules that a page documents as a whole.
WHOLE = {"mcplite.errors": errors, "mcplite.revisions": revisions, "mcplite.testing": testing, "mcplite.types": types}
#: Types of values, which need no docstring: unions, and the version.
VALUES = {"Content", "ResourceContents", "__version__"}


def documented():
    """Return the names that have a directive of their own, such as "mcplite.Server"."""
    return re.findall(r"^\.\. auto(?:class|data|function|exception):: ([\w.]+)$", TEXT, re.MULTILINE)


def resolved(path):
    """Return the object that a dotted path names; skip the test where the library is not installed that it is for."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ImportError as error:
        if ".contrib." not in module:
            raise
        return pytest.skip(f"{module} is for a library that is not installed: {error}")


def methods(cls):
    """Return the public methods and properties that a class defines itself, by name."""
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")
            and (inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod)))}


def documented_classes():
    found = [resolved(name) for name in documented() if ".contrib." not in name]
    return [value for value in found if inspect.isclass(value)]


def test_every_module_that_is_a_page_of_its_own_is_there():
    assert set(re.findall(r"^\.\. automodule:: ([\w.]+)$", TEXT, re.MULTILINE)) >= set(WHOLE)


def test_each_name_of_the_front_door_and_behind_it_is_in_the_reference():
    modules = {module.__name__.rpartition(".")[2] for module in WHOLE.values()} | {"auth", "extend"}
    names = [*(name for name in mcplite.__all__ if name not in errors.__all__ and name not in modules),
             *(f"auth.{name}" for name in auth.__all__), *(f"extend.{name}" for name in extend.__all__)]
    assert [name for name in names if f"mcplite.{name}" not in documented()] == []


def test_a_name_is_documented_once():
    assert len(documented()) == len(set(documented()))


@pytest.mark.parametrize("path", sorted(set(documented()) | {f"mcplite.{name}" for name in mcplite.__all__}
                                        | {f"{path}.{name}" for path, module in WHOLE.items() for name in module.__all__}))
@pytest.mark.slow
def test_each_name_has_a_docstring(path):
    value, name = resolved(path), path.rpartition(".")[2]
    if name in VALUES or isinstance(value, (int, str, tuple, revisions.Revision)):
        return
    text = value.__doc__ or ""
    assert len(text) >= 5 and not text.startswith(f"{name}("), "a dataclass without a docstring gets its signature"


@pytest.mark.parametrize("cls", documented_classes(), ids=lambda cls: cls.__name__)
def test_each_public_method_has_a_docstring(cls):
    assert [name for name in methods(cls) if not inspect.getdoc(getattr(cls, name))] == []


def test_what_is_hidden_exists():
    """A name in ``:exclude-members:`` that no class has any more hides nothing, or the wrong thing later."""
    for found in re.finditer(r"^\.\. autoclass:: ([\w.]+)\n((?:   .*\n)*)", TEXT, re.MULTILINE):
        listed = re.search(r":exclude-members:((?:.*\n)(?:      .*\n)*)", found.group(2))
        cls = resolved(found.group(1))
        source = inspect.getsource(cls)
        for name in re.findall(r"\w+", listed.group(1)) if listed else ():
            assert hasattr(cls, name) or f"self.{name}" in source, f"{cls.__name__}.{name}"
