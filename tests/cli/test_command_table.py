"""The table of the commands: each row names a module and a function in it, and its words are read as the help shows them."""

import pytest

from mcplite.cli.command_table import COMMANDS, CommandRow, load
from mcplite.cli.parser import option_names

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_a_function_and_options_and_its_examples_begin_with_it(command):
    _, function = load(command)
    options = option_names("mcplite", "1", command)
    assert callable(function)
    assert ("--revision=" in options) == bool(COMMANDS[command].needs) and "--debug" in options
    assert all(line.split()[0] == command for line in COMMANDS[command].examples)


@pytest.mark.parametrize("form, forms", [
    ("TARGET [NAME]", {}), ("", {}), ("a|b FILE NAME | list FILE", {"a": "FILE NAME", "b": "FILE NAME", "list": "FILE"}),
    ("x|y", {"x": "", "y": ""})])
def test_the_words_of_a_command_that_does_several_things(form, forms):
    assert CommandRow("", form, "").forms() == forms
