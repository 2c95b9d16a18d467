"""What all commands have in common, looked at from the outside."""

import click
import pytest
from click.testing import CliRunner

from datamon.diamonds.model import DiamondState
from datamon.starter import output
from datamon.starter.cli import datamon
from datamon.starter.output import print_listing, verbosity


def commands(command=datamon, path=("datamon",)):
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            yield from commands(command.get_command(click.Context(command), name), (*path, name))
    if not isinstance(command, click.Group) or (command.invoke_without_command and path != ("datamon",)):
        yield " ".join(path), command


COMMANDS = dict(commands())


@pytest.fixture(autouse=True)
def usual_verbosity():
    yield
    verbosity.quiet = verbosity.debug = False


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_shows_an_example_that_it_could_parse(path):
    command = COMMANDS[path]
    text = CliRunner().invoke(command, ["--help"]).output
    assert "Example:" in text
    [example] = [line for line in map(str.strip, command.help.splitlines()) if line.startswith("Example:")]
    assert " ".join(path.split()) in example
    words = example.partition(path)[2].replace(")", " ").split()
    known = {name for option in command.params for name in option.opts + option.secondary_opts}
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_can_be_quiet_and_can_be_debugged(path):
    known = {name for option in COMMANDS[path].params for name in option.opts}
    assert {"--quiet", "-q", "--debug"} <= known


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_says_what_it_is_for(path):
    unsaid = [p.name for p in COMMANDS[path].params if isinstance(p, click.Option) and not p.help]
    assert unsaid == []


def test_quiet_commands_make_no_remarks(capsys):
    verbosity.quiet = True
    output.say("a remark")
    assert capsys.readouterr().err == ""


class Terminal:
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_for_terminals_whose_user_wants_them(monkeypatch, environment, coloured):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.uses_colours(Terminal()) is coloured


def test_a_table_that_is_no_terminals_has_no_colours(capsys):
    print_listing(["done"], "table", ("STATE",), lambda state: (state,))
    assert capsys.readouterr().out == "STATE\ndone\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    done = CliRunner().invoke(datamon, ["completion", shell])
    assert "_DATAMON_COMPLETE" in done.output


def completed(monkeypatch, line):
    words = line.split(" ")
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_DATAMON_COMPLETE": "bash_complete"}
    done = CliRunner().invoke(datamon, [], env=environment, prog_name="datamon")
    return [answer.partition(",")[2] for answer in done.output.split()]


def test_shells_complete_commands_options_and_what_is_in_the_store(monkeypatch, tmp_path):
    monkeypatch.setenv("DATAMON_HOME", str(tmp_path))
    for repo in ("weather", "water"):
        CliRunner().invoke(datamon, ["repo", "create", "--repo", repo], catch_exceptions=False)
    assert completed(monkeypatch, "datamon dia") == ["diamond"]
    assert completed(monkeypatch, "datamon diamond init") == ["initialize"]
    assert completed(monkeypatch, "datamon diamond list --st") == ["--state"]
    assert completed(monkeypatch, "datamon diamond list --repo we") == ["weather"]
    assert set(completed(monkeypatch, "datamon diamond list --state ")) == set(DiamondState)
    assert completed(monkeypatch, "datamon diamond get --repo weather --diamond ") == []
