"""A report on a diamond as one HTML page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from datamon.core.instants import epoch_seconds, seconds_between
from datamon.diamonds.model import Split, SplitState
from datamon.diamonds.report import NAMED, WINNERS, Report
from datamon.starter.output import amount, ratio, visible

ID_END = 6  # letters of an id that tell splits with one tag apart: those at its beginning are the time
DRAWN = 300  # splits in the timeline: the slowest ones, if there are more

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #667; --line: #dde1e6; --panel: #f5f7f9;
  --done: #2da160; --running: #3178c6; --failed: #d0384e; --wait: #c9d1d9; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e9ec; --soft: #9aa4ae; --line: #30363d;
  --panel: #1d2125; --done: #3fb970; --running: #58a6ff; --failed: #f4657a; --wait: #3c444d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 72rem; background: var(--back); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } code { font-size: .9em; overflow-wrap: anywhere; }
.state { display: inline-block; padding: 0 .55em; border-radius: 1em; color: #fff; background: var(--running);
  font-size: .85em; }
.done { background: var(--done); } .failed, .canceled { background: var(--failed); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .7rem; margin: 1.2rem 0; }
.tile { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.tile b { display: block; font-size: 1.25rem; }
.row { display: grid; grid-template-columns: minmax(6rem, 14rem) 1fr 5.5rem; gap: .6rem; align-items: center;
  padding: .1rem 0; }
.row span { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.row span:last-child { text-align: right; font-variant-numeric: tabular-nums; }
.track { position: relative; height: .9rem; background: var(--panel); border-radius: .2rem; overflow: hidden; }
.track i { position: absolute; top: 0; bottom: 0; background: var(--running); min-width: 2px; }
.track .waited { background: var(--wait); } .track .done { background: var(--done); }
.track .failed { background: var(--failed); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .93em; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); white-space: nowrap; }
td.why { white-space: normal; min-width: 14rem; } th.number, td.number { text-align: right; }
td.number { font-variant-numeric: tabular-nums; }
@media (max-width: 34rem) { .row { grid-template-columns: 6rem 1fr 4.2rem; } body { font-size: 14px; } }
"""


def page(report: Report, now: str) -> str:
    """The report, as of a moment."""
    diamond = report.diamond
    title = f"{diamond.repo} / {diamond.tag or diamond.id}"
    sections = "".join(
        part
        for part in (
            _head(report, title, now),
            _tiles(report),
            _timeline(report, now),
            _splits(report, now),
            _conflicts(report),
            _contributors(report),
            _left_out(report),
            _skipped(report),
        )
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body>{sections}</body></html>\n"
    )


def _head(report: Report, title: str, now: str) -> str:
    diamond, bundle = report.diamond, report.bundle
    opened = f"opened {_moment(diamond.created)} by {_text(str(diamond.contributor))}"
    lasted = _lasted(diamond.created, diamond.ended, now)
    lines = [
        f'<h1>{_text(title)} <span class="state {diamond.state}">{diamond.state}</span></h1>',
        f'<p class="soft">Diamond <code>{_text(diamond.id)}</code>, {opened}; {lasted}.</p>',
    ]
    if bundle is not None:
        lines.append(f"<p>Bundle <code>{_text(bundle.id)}</code>: {_text(bundle.message)}</p>")
    if diamond.reason:
        lines.append(f"<p>The last failure: {_text(diamond.reason)}</p>")
    return "".join(lines)


def _tiles(report: Report) -> str:
    splits, states = report.splits, Counter(split.state for split in report.splits)
    counts = ", ".join(f"{states[state]} {state}" for state in SplitState if states[state])
    files = report.bundle.files if report.bundle else sum(split.files for split in splits)
    size = report.bundle.bytes if report.bundle else sum(split.bytes for split in splits)
    stored = sum(split.stored for split in splits)
    smaller = f", {ratio(size, stored)} smaller" if 0 < stored < size else ""
    tiles = (
        (f"{len(splits):,}", f"{'split' if len(splits) == 1 else 'splits'}: {counts or 'none'}"),
        (f"{files:,}", "file" if files == 1 else "files"),
        (amount(size), "size"),
        (amount(stored), f"new to the store{smaller}"),
        (f"{report.conflicts:,}", f"{'version' if report.conflicts == 1 else 'versions'} lost and kept"),
    )
    shown = (
        f'<div class="tile"><b>{_text(value)}</b><span class="soft">{_text(name)}</span></div>' for value, name in tiles
    )
    return f'<div class="tiles">{"".join(shown)}</div>'


def _timeline(report: Report, now: str) -> str:
    """A bar a split: how long it waited, and how long it ran."""
    if not report.splits:
        return ""
    drawn = report.splits
    if len(drawn) > DRAWN:
        slowest = sorted(drawn, key=lambda split: -_took(split, now))[:DRAWN]
        drawn = sorted(slowest, key=lambda split: split.position)
    start = min(map(_added, drawn))
    end = max(epoch_seconds(split.ended or now) for split in drawn)
    span = max(end - start, 0.001)
    rows = "".join(_bar(split, start, span, now) for split in drawn)
    note = f" The {DRAWN} slowest of {len(report.splits):,} are shown." if len(report.splits) > DRAWN else ""
    about = f"From the first add to the end of the last split: {_duration(span)}. Grey is waiting for a place."
    if any(split.generation > 1 for split in drawn):
        about += " For splits that were added again, the newest run is shown."
    about += note
    return f'<h2>Timeline</h2><p class="soft">{about}</p>{rows}'


def _bar(split: Split, start: float, span: float, now: str) -> str:
    added, began, ended = (
        _added(split),
        epoch_seconds(split.started or split.ended or now),
        epoch_seconds(split.ended or now),
    )
    waited = _piece("waited", added - start, began - added, span)
    ran = _piece(split.state, began - start, ended - began, span)
    name = _text(f"{split.tag} {split.id[-ID_END:]}" if split.tag else split.id)
    return (
        f'<div class="row"><span title="{_text(split.id)}">{name}</span><div class="track">{waited}{ran}</div>'
        f"<span>{_duration(_took(split, now))}</span></div>"
    )


def _added(split: Split) -> float:
    """When it was added for its newest run: before that, it waited for nobody."""
    return epoch_seconds(split.added or split.created)


def _piece(kind: str, left: float, width: float, span: float) -> str:
    return f'<i class="{kind}" style="left:{100 * left / span:.2f}%;width:{100 * max(width, 0) / span:.2f}%"></i>'


def _splits(report: Report, now: str) -> str:
    columns = ("split", "tag", "state", "host", "#took", "#files", "#bytes", "#stored", "#rate", "#tries", "#lost")
    rows = (
        (
            split.id,
            split.tag,
            split.state,
            split.host,
            _duration(_took(split, now)),
            f"{split.files:,}",
            amount(split.bytes),
            amount(split.stored),
            f"{amount(int(split.bytes / took))}/s" if (took := _took(split, now)) and split.bytes else "",
            str(split.attempts),
            f"{report.lost_by_split[split.id]:,}",
        )
        for split in report.splits
    )
    return "<h2>Splits</h2>" + _table(columns, rows) if report.splits else ""


def _conflicts(report: Report) -> str:
    if not report.conflicts:
        return "<h2>Conflicts</h2><p>None are kept.</p>"
    more = f" The first {NAMED:,} are shown." if report.conflicts > NAMED else ""
    tags = {split.id: split.tag for split in report.splits}
    rows = (
        (
            one.name,
            one.split,
            tags.get(one.split, ""),
            amount(one.size),
            one.winner or "",
            tags.get(one.winner, "") if one.winner else "",
        )
        for one in report.lost
    )
    kept = (
        "1 version lost to a later one, and is kept under its own split."
        if report.conflicts == 1
        else f"{report.conflicts:,} versions lost to a later one, and are kept under their own splits."
    )
    unnamed = f" Winners are named for the first {WINNERS}." if len(report.lost) > WINNERS else ""
    columns = ("name", "split that lost", "tag", "#size", "split that won", "tag")
    return f"<h2>Conflicts</h2><p>{kept}{more}{unnamed}</p>" + _table(columns, rows)


_WHY_MORE = (
    "files of splits that were left out are not in the bundle, "
    "and files that several splits hold with the same content are in it once"
)


def _contributors(report: Report) -> str:
    splits: Counter[str] = Counter(str(split.contributor) for split in report.splits)
    files: Counter[str] = Counter()
    for split in report.splits:
        files[str(split.contributor)] += split.files
    rows = ((who, f"{number:,}", f"{files[who]:,}") for who, number in splits.most_common())
    if not splits:
        return ""
    uploaded = sum(files.values())
    differs = report.bundle is not None and uploaded != report.bundle.files
    note = f"<p>Together {uploaded:,} files: {_WHY_MORE}.</p>" if differs else ""
    return "<h2>Contributors</h2>" + note + _table(("who", "#splits", "#files"), rows)


def _skipped(report: Report) -> str:
    rows = [(split.id, split.tag, one.name, one.reason) for split in report.splits for one in split.skipped_sample]
    if not rows:
        return ""
    count = sum(split.skipped for split in report.splits)
    more = f" The first {len(rows):,} are shown." if count > len(rows) else ""
    things = "1 thing that could not be uploaded." if count == 1 else f"{count:,} things that could not be uploaded."
    return f"<h2>Skipped</h2><p>{things}{more}</p>" + _table(("split", "tag", "name", "!why"), rows)


def _left_out(report: Report) -> str:
    if not report.left_out:
        return ""
    tags = {split.id: split.tag for split in report.splits}
    rows = ((one.id, tags.get(one.id, ""), one.state, one.reason) for one in report.left_out)
    title = "Left out of the bundle" if report.bundle else "Failed so far"
    return f"<h2>{title}</h2>" + _table(("split", "tag", "state", "!why"), rows)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A column that starts with # is of numbers; with !, of sentences."""
    kinds = [{"#": ' class="number"', "!": ' class="why"'}.get(column[0], "") for column in columns]
    head = "".join(f"<th{kind}>{_text(name.lstrip('#!'))}</th>" for name, kind in zip(columns, kinds, strict=True))
    body = "".join(f"<tr>{''.join(_cells(kinds, row))}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cells(kinds: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    return (f"<td{kind}>{_text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))


def _text(text: str) -> str:
    """Text that stays text: names come from anybody."""
    return escape(visible(text))


def _took(split: Split, now: str) -> float:
    return seconds_between(split.started, split.ended or now)


def _lasted(created: str, ended: str | None, now: str) -> str:
    word = "took" if ended else "open for"
    return f"{word} {_duration(seconds_between(created, ended or now))}"


def _moment(instant: str) -> str:
    return f"{instant[:10]} {instant[11:19]} UTC"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
