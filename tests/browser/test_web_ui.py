"""Temporal's Web UI on real diamonds: what an operator at night looks for, and what can be done from there alone."""

import re
from contextlib import suppress
from itertools import count
from urllib.parse import quote

import pytest
from playwright.sync_api import Error

from datamon.settings.stack import running_stack
from tests.conftest import until

_NUMBERS = count(1)


class Ui:
    """The Web UI as a person uses it."""

    def __init__(self, page, stack):
        self.page, self.root = page, f"{running_stack(stack.home).ui}/namespaces/default/workflows"

    def open(self, workflow="", tab=""):
        self.page.goto(f"{self.root}/{quote(workflow, safe='')}")
        if tab:
            self.page.wait_for_url(re.compile("/timeline$"))
            self.page.goto(self.page.url.replace("/timeline", f"/{tab}"))
        return self

    def sees(self, *texts):
        """Wait until all of it is on the page; details are in frames of their own."""
        for text in texts:
            try:
                until(lambda text=text: any(text in seen for seen in self._seen()))
            except AssertionError:
                raise AssertionError(f"{text!r} is not in {list(self._seen())}") from None

    def _seen(self):
        self.page.wait_for_timeout(50)  # lets the browser go on
        for frame in self.page.frames:
            with suppress(Error):  # a frame that has just gone
                yield frame.inner_text("body").replace("\u00a0", " ")

    def send(self, signal, data):
        self.page.get_by_role("button", name="More Actions").click()
        self.page.get_by_role("menuitem", name="Send a Signal").click()
        dialog = self.page.get_by_role("dialog", name="Send a Signal")
        dialog.get_by_test_id("signal-select").locator("xpath=ancestor::*[@role='combobox' or self::button][1]").click()
        option = dialog.get_by_role("option", name=re.compile(rf"^{signal}\b"))
        described = option.inner_text()
        option.click()
        dialog.locator(".cm-content").click()
        self.page.keyboard.insert_text(data)
        dialog.get_by_text("Encoding").click()  # the editor puts it in order when it is left
        dialog.get_by_role("button", name="Submit").click()
        dialog.wait_for(state="hidden")
        return described


@pytest.fixture
def ui(page, stack):
    return Ui(page, stack)


@pytest.fixture
def mixed(stack, weather, files, sparse, tmp_path):
    """A diamond with a split that is done, one that failed and one that runs: node-1, node-2 and node-3."""
    diamond = f"march-{next(_NUMBERS)}"
    where = ("--repo", weather, "--diamond", diamond)
    stack("diamond", "initialize", *where, "--tag", "march")

    def add(node, path, *more, **how):
        named = ("--split", node, "--create", "--split-tag", node)
        return stack.run("diamond", "add", *where, "--path", path, *named, *more, **how)

    add("node-1", files("p", {"a": "1", "b": "22"}))
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "link").symlink_to("/etc/passwd")
    add("node-2", str(tmp_path / "bad"), exit_code=1)
    add("node-3", sparse(400), "--detach")
    until(lambda: any(one["progress"] for one in stack.json("diamond", "split", "list", *where)))
    yield diamond
    stack("diamond", "cancel", *where)


def test_the_list_shows_repo_kind_and_state_as_columns(ui, mixed, weather, picture):
    ui.page.set_viewport_size({"width": 1400, "height": 560})
    ui.open()
    ui.page.get_by_test_id("workflows-summary-table-configuration-button").click()
    for column in ("DatamonRepo", "DatamonKind", "DatamonState", "DatamonSplits"):
        ui.page.get_by_test_id(f"orderable-list-item-{column}-add-button").click()
    for column in ("Run ID", "Type", "Start", "End"):
        ui.page.get_by_test_id(f"orderable-list-item-{column}-remove-button").click()
    ui.page.get_by_test_id("drawer-close-button").click()
    failed, opened = f"split/{weather}/{mixed}/node-2", f"diamond/{weather}/{mixed}"
    for workflow, kind, state in ((failed, "split", "failed"), (opened, "diamond", "initialized")):
        row = ui.page.get_by_role("row").filter(has_text=workflow)
        row.wait_for()
        assert {weather, kind, state} <= {cell.strip() for cell in row.get_by_role("cell").all_inner_texts()}
    ui.page.wait_for_timeout(500)  # until the drawer is out of the picture
    picture(ui.page, "web-ui-list")


def test_one_screen_says_what_is_stuck_and_why(ui, mixed, weather, picture):
    ui.open(f"diamond/{weather}/{mixed}", "user-metadata")
    ui.sees("diamond march of", "1 running, 1 done, 1 failed", "slowest split", "node-3, running since")
    ui.sees("cannot upload 'link': it is a link that leads out of the source")
    picture(ui.page, "web-ui-details")


def test_the_timeline_names_the_splits_by_their_tags(ui, mixed, weather, picture):
    ui.open(f"diamond/{weather}/{mixed}")
    ui.sees(*(f"split {tag} of {weather}" for tag in ("node-1", "node-2", "node-3")))
    ui.sees("diamond.yaml: initialized")
    picture(ui.page, "web-ui-timeline")


def test_a_running_split_shows_how_far_it_is(ui, mixed, weather, picture):
    ui.open(f"split/{weather}/{mixed}/node-3", "pending-activities")
    ui.sees("upload_split", '"phase"', '"reading huge files"', '"all_bytes"', "429496729600")
    picture(ui.page, "web-ui-progress")


def test_a_failed_split_says_why_in_a_sentence(ui, mixed, weather):
    ui.open(f"split/{weather}/{mixed}/node-2")
    ui.sees("it is a link that leads out of the source")
    assert "Traceback" not in ui.page.inner_text("body")


def test_an_operator_adds_a_split_and_commits_from_here_alone(ui, stack, repo, files):
    diamond = stack("diamond", "initialize", "--repo", repo)
    where, path = ("--repo", repo, "--diamond", diamond), files("p", {"a": "1"})
    ui.open(f"diamond/{repo}/{diamond}")
    described = ui.send("add", f'[{{"path": "{path}", "host": "{stack.settings().host}"}}]')
    assert '[{"path": "/data/part1", "host": "node-1"}]' in described
    until(lambda: [s["state"] for s in stack.json("diamond", "split", "list", *where)] == ["done"])
    ui.open(f"diamond/{repo}/{diamond}")
    assert '{"message": "March"}' in ui.send("commit", '{"message": "by hand", "label": "latest"}')
    until(lambda: stack.json("diamond", "get", *where)["state"] == "done")
    bundle = stack.json("bundle", "get", "--repo", repo, "--label", "latest")
    assert (bundle["message"], bundle["files"]) == ("by hand", 1)
    assert bundle["contributors"] == [{"name": "Ada Test", "email": "ada@example.org"}]
    ui.open(f"diamond/{repo}/{diamond}", "user-metadata")
    ui.sees(bundle["id"])


def test_what_an_operator_sends_by_mistake_is_refused_and_told(ui, stack, repo):
    diamond = stack("diamond", "initialize", "--repo", repo)
    ui.open(f"diamond/{repo}/{diamond}")
    ui.send("commit", "{}")
    ui.open(f"diamond/{repo}/{diamond}", "user-metadata")
    ui.sees("a commit needs a", "message")
    ui.open(f"diamond/{repo}/{diamond}")
    ui.send("cancel", '{"reason": "a mistake"}')
    until(lambda: stack.json("diamond", "get", "--repo", repo, "--diamond", diamond)["state"] == "canceled")
