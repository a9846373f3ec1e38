"""The reference of the API, in docs/reference: it has every public name, each with a docstring and an example that runs."""

import ast
import dataclasses
import importlib
import inspect
import re
import runpy
from pathlib import Path

import pytest

import mcplite
from mcplite import auth, errors, extend, openapi, revisions, testing, types
from tests.test_docs import blocks, run

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGES = sorted(REFERENCE.glob("*.rst"))
TEXT = "".join(path.read_text("utf-8") for path in PAGES)
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
    modules = {module.__name__.rpartition(".")[2] for module in WHOLE.values()} | {"auth", "extend", "openapi"}
    names = [*(name for name in mcplite.__all__ if name not in errors.__all__ and name not in modules),
             *(f"auth.{name}" for name in auth.__all__), *(f"extend.{name}" for name in extend.__all__),
             *(f"openapi.{name}" for name in openapi.__all__)]
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


# --- examples --------------------------------------------------------------------------------------

#: Modules whose public names have an example each; those of contrib are for libraries that may not be there.
SHOWN = ["mcplite", *(f"mcplite.{name}" for name in (
    "auth", "contrib.celery", "contrib.django", "contrib.flask", "contrib.otel", "contrib.rq", "extend", "llm", "middleware",
    "openapi", "skills", "skills.client_skills", "testing", "types"))]


def page_of(module, name):
    """Return the text of the page that documents a name: by its own directive, or with all of its module."""
    paths = {f"{module}.{name}", f"mcplite.{name}"}
    own = re.compile(rf"^\.\. auto\w+:: (?:{'|'.join(map(re.escape, paths))})$", re.MULTILINE)
    whole = [module] if module != "mcplite" else ["mcplite.errors", "mcplite.types"]
    whole = re.compile(rf"^\.\. automodule:: (?:{'|'.join(map(re.escape, whole))})$", re.MULTILINE)
    texts = [page.read_text("utf-8") for page in PAGES]
    return next(text for pattern in (own, whole) for text in texts if pattern.search(text))


def shown_names(text):
    """Return the names that the code of a page uses; an import alone is no use."""
    nodes = [node for _, code, runs in blocks(text) if runs for node in ast.walk(ast.parse(code))]
    return ({node.id for node in nodes if isinstance(node, ast.Name)}
            | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


@pytest.mark.parametrize("path", SHOWN)
def test_each_public_name_has_an_example_on_its_page(path):
    missing = []
    try:
        module = importlib.import_module(path)
    except ImportError as error:
        if ".contrib." not in path:
            raise
        pytest.skip(f"a library is not installed: {error}")
    for name in module.__all__:
        if inspect.ismodule(getattr(module, name)):
            found = any(name in shown_names(page.read_text("utf-8")) for page in PAGES
                        if f"module:: mcplite.{name}\n" in page.read_text("utf-8"))
        else:
            found = name in shown_names(page_of(module.__name__, name))
        missing += [] if found else [name]
    assert missing == []


def test_the_lines_of_the_reference_are_short():
    assert [line for line in TEXT.splitlines() if len(line) > 120] == []


#: Libraries of extras that the examples of a page use; they run where the libraries are installed.
NEEDS = {"authorization": ["authlib", "jwt", "keyring"], "models": ["langchain_core"], "openapi": ["flask"],
         "contrib": ["celery", "django", "flask", "opentelemetry.sdk", "rq"], "testing": ["authlib"]}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.slow
def test_the_examples_of_a_page_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    for library in NEEDS.get(page.stem, ()):
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    run(page, {}, monkeypatch)


# --- tables of options -----------------------------------------------------------------------------

OPTIONS = runpy.run_path(str(REFERENCE.parent / "option_tables.py"))


@pytest.mark.parametrize("path", sorted(OPTIONS["TABLED"]))
def test_the_table_of_an_option_class_has_each_field_with_its_default(path):
    cls = resolved(path)
    text = OPTIONS["with_tables"](inspect.getdoc(cls) + "\n", cls)
    rows = re.findall(r"^   \* - ``(\w+)``\n     - (.+)\n     - (.+)\n     - (.+)\n     - (.+)$", text, re.MULTILINE)
    assert ":param" not in text and text.count("\n   * - ") == len(rows) + text.count("   * - Field\n")
    defaults = {name: int(default[:-4]) << 20 if default.endswith(" MiB") else ast.literal_eval(default.strip("`"))
                for name, _, _, default, _ in rows}
    assert defaults == {field.name: field.default for field in dataclasses.fields(cls)} and len(defaults) == len(rows)
    units = {name: unit for name, kind, unit, _, _ in rows}
    assert {name for name in units if name.endswith(("seconds", "timeout", "interval")) or name == "grace"} <= {
        name for name, unit in units.items() if unit == "seconds"}
    assert {name for name in units if name.endswith("bytes")} <= {name for name, unit in units.items() if unit == "bytes"}
    assert [name for name, *_, meaning in rows if len(meaning.split()) < 2] == []


def test_the_fields_of_limits_are_described_in_the_table_alone():
    hidden = re.search(r"autoclass:: mcplite\.Limits\n   :exclude-members:\n((?:      .+\n)+)", TEXT).group(1)
    assert re.findall(r"\w+", hidden) == [field.name for field in dataclasses.fields(mcplite.Limits)]


def test_what_is_hidden_exists():
    """A name in ``:exclude-members:`` that no class has any more hides nothing, or the wrong thing later."""
    for found in re.finditer(r"^\.\. autoclass:: ([\w.]+)\n((?:   .*\n)*)", TEXT, re.MULTILINE):
        listed = re.search(r":exclude-members:((?:.*\n)(?:      .*\n)*)", found.group(2))
        cls = resolved(found.group(1))
        source = inspect.getsource(cls)
        for name in re.findall(r"\w+", listed.group(1)) if listed else ():
            assert hasattr(cls, name) or f"self.{name}" in source, f"{cls.__name__}.{name}"
