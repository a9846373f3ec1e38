"""Makes the pictures of terminals in _static/terminal: runs the commands, and draws what they print as SVG files.

``python docs/terminal_pictures.py`` (or ``make terminal-pictures``) makes them again after the output has changed, on POSIX. A
test compares their text with what the commands print.
"""

import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Tuple

DOCS = Path(__file__).resolve().parent
FOLDER = DOCS / "_static" / "terminal"
#: Pixels of a character and of a line, at a size of 14.
WIDTH, HEIGHT, MARGIN, TITLE = 8.43, 20, 16, 34
COLUMNS = 92
#: Colours by the codes of the terminal.
COLOURS = {"31": "#ff8a80", "32": "#a5d6a7", "33": "#ffe082", "34": "#90caf9", "35": "#ce93d8", "36": "#80deea", "2": "#90a4ae",
           "90": "#90a4ae"}


class Picture(NamedTuple):
    """One terminal: the commands, and the lines that a person types when the last one asks."""

    title: str
    commands: List[str]
    typed: str = ""


#: The pictures by name; each runs in a folder with the files of the tutorial.
PICTURES: Dict[str, Picture] = {
    "describe": Picture("How a tool looks from outside", ["mcplite describe notes.py search"]),
    "question": Picture("A tool asks its user", ["mcplite call notes.py delete_note title=trip"], "y\n"),
    "pytest": Picture("The tests of the tutorial", ["python -m pytest -q test_notes.py"]),
}


def tutorial_files() -> Dict[str, str]:
    """Return the files of the tutorial as they are at its end."""
    page = (DOCS / "tutorial.rst").read_text("utf-8")
    found: Dict[str, str] = {}
    for name, block in re.findall(r"^\.\. code-block:: python\n   :caption: (\S+)\n\n((?:   .*\n|\n)+)", page, re.MULTILINE):
        code = re.sub(r"^   ", "", block, flags=re.MULTILINE).strip("\n")
        found[name] = f"{found[name]}\n\n\n{code}" if name in found else code
    return {name: f"{code}\n" for name, code in found.items()}


def environment(folder: Path) -> Dict[str, str]:
    """Return the variables for the commands: this checkout's package and this Python's programs, and no user's settings."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, module in (("mcplite", "-m mcplite "), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
        (programs / name).chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name in ("LANG", "SYSTEMROOT", "TMPDIR")}
    return {**kept, "PATH": os.pathsep.join([str(programs), "/usr/bin", "/bin"]), "HOME": str(folder),
            "PYTHONPATH": str(DOCS.parent), "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "PYTHONDONTWRITEBYTECODE": "1"}


def output_of(picture: Picture, folder: Path) -> str:
    """Run the commands on a terminal of their own; return what stands on it."""
    shown = []
    for command in picture.commands:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(["sh", "-c", command], cwd=str(folder), env=environment(folder), stdin=theirs, stdout=theirs,
                                   stderr=theirs, start_new_session=True)
        os.close(theirs)
        typed, said = picture.typed.encode(), b""
        try:
            while True:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # EIO: the programs have closed the terminal
                    break
                if not part:
                    break
                said += part
                if typed and b"? [" in said:
                    os.write(ours, typed)
                    typed = b""
            process.wait(60)
        finally:
            os.close(ours)
            if process.poll() is None:
                process.kill()
                process.wait()
        shown.append(f"$ {command}\n" + said.decode("utf-8").replace("\r\n", "\n"))
    text = "".join(shown).rstrip("\n") + "\n"
    # An erased line of progress does not stand on the terminal, and each run takes another time.
    text = re.sub(r"[^\n]*\r(?=[^\n])", "", text)
    return re.sub(r" in \d+\.\d+s", "", text)


def spans(line: str) -> Iterator[Tuple[str, str, bool]]:
    """Yield the parts of a line, each with its colour, or none, and whether it is bold."""
    colour, bold = "", False
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        code = re.fullmatch(r"\x1b\[([0-9;]*)m", part)
        if code is None:
            if part:
                yield part, colour, bold
            continue
        for number in (code.group(1) or "0").split(";"):
            if number in ("0", ""):
                colour, bold = "", False
            elif number == "1":
                bold = True
            else:
                colour = COLOURS.get(number, colour)


def text_of(output: str) -> str:
    """Return an output without its colours."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output)


def drawing(picture: Picture, output: str) -> str:
    """Return the SVG of a terminal with this output."""
    output = re.sub(r"\x1b\[[0-9;?]*[A-Zac-ln-z]", "", output)
    lines = output.rstrip("\n").split("\n")
    columns = max([60, *(len(text_of(line)) for line in lines)])
    width, height = round(columns * WIDTH) + 2 * MARGIN, len(lines) * HEIGHT + TITLE + MARGIN
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
             ' role="img" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, \'DejaVu Sans Mono\', monospace"'
             ' font-size="14">',
             f"<title>{html.escape(picture.title)}</title>", f"<desc>{html.escape(text_of(output))}</desc>",
             f'<rect width="{width}" height="{height}" rx="8" fill="#1d2330"/>']
    parts += [f'<circle cx="{MARGIN + 6 + 18 * number}" cy="17" r="5" fill="#3c475c"/>' for number in range(3)]
    for number, line in enumerate(lines):
        y = TITLE + HEIGHT * number + 14
        drawn = [f'<text x="{MARGIN}" y="{y}" xml:space="preserve" fill="#e6e9ef">']
        for text, colour, bold in spans(line):
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
            if line.startswith("$ "):
                style = ' fill="#8ab4f8"'
            drawn.append(f"<tspan{style}>{html.escape(text)}</tspan>")
        parts.append("".join(drawn) + "</text>")
    return "\n".join([*parts, "</svg>", ""])


def prepare(folder: Path) -> None:
    """Write the files of the tutorial, and the notes that its commands have made."""
    for name, code in tutorial_files().items():
        (folder / name).write_text(code, "utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "tea.txt").write_text("Two bags of green tea")
    (folder / "notes" / "trip.txt").write_text("Night train to Rome, buy a ticket")


def made() -> Iterator[Tuple[str, Picture, str]]:
    """Yield each picture's name, what it is of, and what its terminal shows."""
    for name, picture in PICTURES.items():
        folder = Path(tempfile.mkdtemp())
        try:
            prepare(folder)
            yield name, picture, output_of(picture, folder)
        finally:
            shutil.rmtree(folder)


if __name__ == "__main__":
    for name, picture, output in made():
        (FOLDER / f"{name}.svg").write_text(drawing(picture, output), "utf-8")
        print(name, file=sys.stderr)
