"""The README and the pages beside it: they render, what the README shows runs, and its commands are run by CI."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import docutils.core
import docutils.nodes
import docutils.utils
import pytest
from docutils.writers import html5_polyglot

import mcplite
from mcplite import revisions

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.rst").read_text("utf-8")


#: In Markdown, under the names that the audit of SDKs looks for.
MARKDOWN = ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/roadmap.md", "docs/versioning.md",
            "docs/dependency-policy.md"]


def document(text, name):
    """Return the parsed document; any warning is an error."""
    settings = {"halt_level": docutils.utils.Reporter.WARNING_LEVEL, "report_level": 2, "input_encoding": "unicode"}
    return docutils.core.publish_doctree(text, source_path=str(ROOT / name), settings_overrides=settings)


def blocks(language):
    """Return the README's code blocks in a language."""
    found = document(README, "README.rst").findall(docutils.nodes.literal_block)
    return [block.astext() for block in found if language in block["classes"]]


def commands():
    """Return the commands after the prompts."""
    return [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]


def test_it_renders_without_a_warning():
    html = docutils.core.publish_string(README, writer=html5_polyglot.Writer(),
                                        settings_overrides={"halt_level": 2, "input_encoding": "unicode"})
    assert b"<h1" in html


def test_its_links_lead_to_files():
    references = document(README, "README.rst").findall(docutils.nodes.reference)
    local = [node["refuri"] for node in references if "://" not in node.get("refuri", "://")]
    assert local and [target for target in local if not (ROOT / target).is_file()] == []


@pytest.mark.parametrize("name", MARKDOWN)
def test_a_page_in_markdown_has_links_to_files_and_nothing_of_another_markup(name):
    text = (ROOT / name).read_text("utf-8")
    assert text.startswith("# ") and not re.search(r">`_|^\.\. |::$|^[=~-]{4,}$", text, re.MULTILINE)
    assert text.count("```") % 2 == 0
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", text) if "://" not in target]
    assert [target for target in targets if not (ROOT / name).parent.joinpath(target).is_file()] == []


def test_the_page_for_contributors_names_existing_files():
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    paths = set(re.findall(r"\b(?:mcplite|tests|docs|examples|benchmarks)/[\w./-]*[\w]", text)) - {"tests/rpc/test_peer_"}
    assert len(paths) > 20 and [path for path in paths if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)
    shortcuts = text.partition("`make` has short names")[2].partition(".\n\n")[0]
    assert set(re.findall(r"`([a-z]+)`", shortcuts)) <= set(targets)


def test_the_server_is_the_example():
    assert blocks("python")[0] == (ROOT / "examples" / "hello.py").read_text("utf-8").rstrip("\n")


def test_the_server_and_the_client_are_as_short_as_they_should_be():
    server, client = ([line for line in block.splitlines() if line.strip()] for block in blocks("python"))
    assert len(server) <= 13 and len(client) <= 8


@pytest.mark.slow
def test_the_client_runs():
    ran = subprocess.run([sys.executable, "-c", blocks("python")[1]], cwd=str(ROOT), stdout=subprocess.PIPE, timeout=60)
    lines = ran.stdout.decode().splitlines()
    assert ran.returncode == 0
    assert lines[0] == "top_words - Count the most frequent long words of a text file."
    assert len(re.findall(r"'[^']+': \d+", lines[1])) == 3


@pytest.mark.slow
def test_the_first_command_works():
    install, run = commands()[0].rsplit(" && ", 1)
    assert install == "python3 -m venv .venv && .venv/bin/pip install -q ."
    arguments = shlex.split(run)
    assert arguments[0] == ".venv/bin/python"
    ran = subprocess.run([sys.executable, *arguments[1:]], cwd=str(ROOT), stdout=subprocess.PIPE, timeout=60)
    assert ran.returncode == 0
    assert len(re.findall(r'": ?\d+', ran.stdout.decode())) == 3


def test_there_are_two_commands_and_continuous_integration_runs_them():
    script = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "< <(sed -n 's/^    \\$ //p' README.rst)" in script
    assert [line[6:] for line in README.splitlines() if line.startswith("    $ ")] == commands()
    assert len(commands()) == 2
    assert "quickstart=${commands[0]} tests=${commands[1]}" in script
    assert 'bash -c "$quickstart"' in script and script.count('"${run_tests[@]}"') == 5
    assert 'run_tests=(.ci/rerun bash -c "$tests \\"\\$@\\"" tests)' in script


def test_the_second_command_installs_what_the_tests_need():
    install, run = commands()[1].rsplit(" && ", 1)
    assert install == "python3 -m venv .venv && .venv/bin/pip install -q -e '.[test]'"
    assert run == ".venv/bin/python -m pytest"


def test_the_table_of_revisions_is_the_packages():
    rows = re.findall(r"^(20\d\d-\d\d-\d\d) (yes|no) +(yes|no) ", README, re.MULTILINE)
    assert rows == [(revision.name, "yes", "yes") for revision in revisions.REVISIONS]


def test_the_default_that_it_names_is_the_default():
    assert f"({mcplite.Limits().running} by default)" in README
