"""The fields of an option class as a table of the reference, made of its docstring or of the comments at its fields.

``conf.py`` puts the table in the place of the parameters, so that each field is described once, in the source.
"""

import dataclasses
import inspect
import re

#: The classes whose fields are a table.
TABLED = {"mcplite.ClientOptions", "mcplite.ServerOptions", "mcplite.Limits", "mcplite.tasks.Tasks"}
HEAD = ("Field", "Type", "Unit", "Default", "Meaning")
_PARAM = re.compile(r"^:param (\w+):(.*\n(?:[ ]+.*\n)*)", re.MULTILINE)
_RUN = re.compile(r"(?:^:param \w+:.*\n(?:[ ]+.*\n)*)+", re.MULTILINE)
_FIELD = re.compile(r"((?:^    #: .*\n)*)^    (\w+): (.+?) = .*$", re.MULTILINE)


def with_tables(text, cls):
    """Return a docstring with a table in the place of each run of parameters, or before what it raises if it has none.

    :param text: the docstring without its indentation, with a line end.
    :param cls: the dataclass that it describes.
    """
    source = {name: (comment, kind) for comment, name, kind in _FIELD.findall(inspect.getsource(cls))}
    fields = {field.name: field.default for field in dataclasses.fields(cls)}

    def row(name, meaning):
        kind = source[name][1]
        shown = meaning[:1].upper() + meaning[1:]
        return f"``{name}``", type_of(kind), unit(kind, meaning), default(fields[name], meaning), shown

    if not _PARAM.search(text):
        before, raises, rest = text.partition(":raises ")
        comments = {name: one_line(source[name][0].replace("#:", "")) for name in fields}
        return f"{before}\n{table(row(name, comments[name]) for name in fields)}\n{raises}{rest}"

    def table_of(run):
        rows = (row(name, one_line(meaning)) for name, meaning in _PARAM.findall(run[0]))
        return f"\n{table(rows)}\n"

    return _RUN.sub(table_of, text)


def table(rows):
    """Return a list-table of rows of five cells."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 18 14 10 12 46", ""]
    for cells in (HEAD, *rows):
        lines += [f"   {'* -' if index == 0 else '  -'} {cell}" for index, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


def one_line(text):
    """Return a text without its line breaks."""
    return " ".join(text.split())


def type_of(annotation):
    """Return an annotation for readers: ``Optional[float]`` is "float or None"."""
    plain = re.sub(r"^Optional\[(.*)\]$", r"\1 or None", annotation.replace('"', ""))
    return re.sub(r"Callable\[.*\]", "callable", plain)


def unit(annotation, meaning):
    """Return the unit of a number: a text about seconds or bytes begins with the word."""
    if not re.search(r"\b(int|float)\b", annotation) or "Callable" in annotation:
        return "–"
    first = meaning.split()[0].strip(".,").lower()
    return first if first in ("seconds", "bytes") else "number"


def default(value, meaning):
    """Return a default for readers; whole mebibytes are "4 MiB"."""
    if meaning.lower().startswith("bytes") and isinstance(value, int) and value % (1 << 20) == 0:
        return f"{value >> 20} MiB"
    return f"``{value!r}``"
