"""``guide``: what it prints is a skill, and each command in it is one that the parser takes."""

import re
import shlex

import pytest

from mcplite.__main__ import main
from mcplite.cli.parser import check_words, parse, program_of, take_verb
from mcplite.skills.frontmatter import read_frontmatter

pytestmark = pytest.mark.one_python


def test_the_guide_is_a_skill_and_its_commands_are_right(capsys):
    assert main(["guide"]) == 0
    text = capsys.readouterr().out
    assert read_frontmatter(text)["name"] == "mcplite"
    commands = re.findall(rf"^    {re.escape(program_of('mcplite'))} (.+?)(?: <.*)?$", text, re.MULTILINE)
    assert len(commands) == 9
    for line in commands:
        options = parse(shlex.split(line), "mcplite", "1")
        check_words(options.words, *take_verb(options.words, options), False)
