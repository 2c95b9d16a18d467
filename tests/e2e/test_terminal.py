"""What a person sees: bars on a terminal, plain lines in a log, documents for programs."""

import json
import os
import pty
import re
import subprocess
import threading

from tests.conftest import BIN, as_an_ordinary_user, until


class Terminal:
    """A command on a terminal of its own, and all that it wrote there."""

    def __init__(self, command, *args, **more):
        master, slave = pty.openpty()
        self.text, self._master = "", master
        environment = command.environment | {"TERM": "xterm-256color", "COLUMNS": "120"} | more
        self.process = subprocess.Popen(
            [BIN / "datamon", *args],
            env=environment,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            preexec_fn=as_an_ordinary_user,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self):
        while True:
            try:
                some = os.read(self._master, 4096)
            except OSError:  # the other side is closed
                return
            self.text += some.decode(errors="replace")

    @property
    def plain(self):
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.text)

    def sees(self, pattern):
        try:
            return until(lambda: re.search(pattern, self.plain))
        except AssertionError:
            raise AssertionError(f"{pattern!r} is not in {self.plain[-1000:]!r}") from None

    def end(self):
        code = self.process.wait(60)
        self._reader.join(10)
        os.close(self._master)
        return code


def opened(stack, repo):
    return ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo))


def test_an_upload_has_a_bar_with_files_bytes_rate_and_time_left(stack, repo, sparse):
    where = opened(stack, repo)
    terminal = Terminal(stack, "diamond", "add", *where, "--path", sparse(400))
    terminal.sees(r"upload .*0/1 files.*\d+\.\d/400\.0 GiB .*/s \d+:\d\d")
    stack("diamond", "cancel", *where)
    assert terminal.end() == 1
    assert "canceled by the user" in terminal.plain


def test_splits_are_watched_with_a_bar_each_until_all_have_ended(stack, repo, files, sparse):
    where = opened(stack, repo)
    done = stack("diamond", "add", *where, "--path", files("p", {"a": "1"}), "--split-tag", "small")
    slow = stack("diamond", "add", *where, "--path", sparse(400), "--split-tag", "large", "--detach")
    terminal = Terminal(stack, "diamond", "split", "list", *where, "--watch")
    terminal.sees(rf"{done} +small +done +━+ ")
    terminal.sees(rf"{slow} +large +running .*reading huge files \d+ %")
    assert "\x1b[32mdone" in terminal.text
    with stack.popen("diamond", "split", "list", *where, "--watch") as piped:
        assert re.fullmatch(rf"\d\d:\d\d:\d\d  {done}  done  100 %  1 files  1 B\n", piped.stdout.readline())
        assert re.match(rf"\d\d:\d\d:\d\d  {slow}  running  ", piped.stdout.readline())
        stack("diamond", "cancel", *where)
        last = piped.stdout.read().splitlines()[-1]
    assert last.endswith("canceled by the user")
    assert "\x1b" not in last
    assert terminal.end() == 0
    terminal.sees(rf"{slow} +large +failed ")


def test_no_color_is_honoured_by_bars_tables_and_errors(stack, repo, files):
    where = opened(stack, repo)
    stack("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    for args in (("diamond", "split", "list", *where, "--watch"), ("diamond", "list", "--repo", repo), ("up",)):
        terminal = Terminal(stack, *args, NO_COLOR="1")
        terminal.end()
        assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.text), args


def test_a_commit_that_waits_says_for_what(stack, repo, files, sparse):
    where = opened(stack, repo)
    stack("diamond", "add", *where, "--path", files("p", {"a": "1"}))
    stack("diamond", "add", *where, "--path", sparse(400), "--detach")
    terminal = Terminal(stack, "diamond", "commit", *where, "--message", "m", "--wait")
    terminal.sees(r"commit .*waiting for splits: 1 done, 1 running split")
    assert stack("diamond", "commit", *where, "--message", "now")
    assert terminal.end() == 4
    assert "a commit that did not wait was faster" in terminal.plain


def test_what_is_made_can_be_had_as_a_document(stack, repo, files):
    made = json.loads(stack("diamond", "initialize", "--repo", repo, "--format", "json"))
    assert (made["state"], made["repo"]) == ("initialized", repo)
    where = ("--repo", repo, "--diamond", made["id"])
    added = json.loads(stack("diamond", "add", *where, "--path", files("p", {"a": "1"}), "--format", "json"))
    assert (added["repo"], added["diamond"]) == (repo, made["id"])
    committed = json.loads(stack("diamond", "commit", *where, "--message", "m", "--format", "json"))
    assert committed["files"] == 1
    label = ("label", "set", "--repo", repo, "--label", "l", "--bundle", committed["bundle"])
    assert json.loads(stack(*label, "--format", "json"))["bundle"] == committed["bundle"]
    assert stack(*label) == ""


def test_quiet_leaves_only_results(stack, repo, files):
    where = opened(stack, repo)
    done = stack.run("diamond", "add", *where, "--path", files("p", {"a": "1"}), "--quiet")
    assert (len(done.stdout.split()), done.stderr) == (1, "")
    done = stack.run("--quiet", "diamond", "commit", *where, "--message", "m")
    assert (len(done.stdout.split()), done.stderr) == (1, "")


def test_debug_shows_the_whole_error(stack):
    done = stack.run("diamond", "list", "--repo", "nowhere", "--debug", exit_code=3)
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("datamon: there is no repo")
