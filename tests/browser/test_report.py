"""The report on a diamond, looked at on a desk and on a phone, by day and by night."""

import pytest


@pytest.fixture(scope="module")
def report(stack, tmp_path_factory):
    """The report on a diamond with a conflict, a slow split and one that failed."""
    folder = tmp_path_factory.mktemp("report")
    repo = stack("repo", "create", "--repo", "climate")
    where = ("--repo", repo, "--diamond", stack("diamond", "initialize", "--repo", repo, "--tag", "march"))
    for number in range(1, 6):
        source = folder / f"node-{number}"
        source.mkdir()
        (source / "common.csv").write_text(f"from {number}")
        for file in range(40 * number):
            (source / f"observations-{number}-{file:03d}.csv").write_text("1,2,3\n" * file)
        named = ("--split", source.name, "--create", "--split-tag", source.name)
        stack("diamond", "add", *where, "--path", str(source), *named)
    (folder / "bad").mkdir()
    (folder / "bad" / "link").symlink_to("/etc/passwd")
    named = ("--split", "node-6", "--create", "--split-tag", "node-6")
    stack.run("diamond", "add", *where, "--path", str(folder / "bad"), *named, exit_code=1)
    stack("diamond", "commit", *where, "--message", "Observations of March")
    output = folder / "report.html"
    stack("diamond", "report", *where, "--output", str(output))
    return output


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("device", "width"), [("desktop", 1200), ("phone", 390)])
def test_the_report_fits_the_screen_and_the_time_of_day(browser, report, picture, device, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requested = []
    page.on("request", lambda request: requested.append(request.url))
    page.goto(report.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert (red + green + blue > 600) is (scheme == "light")
    for text in ("Observations of March", "5 done, 1 failed", "common.csv", "node-6", "it is a link that leads out"):
        assert page.get_by_text(text).first.is_visible()
    widths = {row: page.locator(".row").nth(row).locator("i").last.bounding_box()["width"] for row in range(6)}
    assert min(widths.values()) >= 2
    assert requested == [report.as_uri()], "it needs nothing else"
    picture(page, f"report-{device}-{scheme}", full_page=device == "desktop")
    page.close()
