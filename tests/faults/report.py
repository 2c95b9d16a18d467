"""What `make torture` found, as docs/internals/reliability.md. Nothing in its tables is written by hand."""

from __future__ import annotations

import json
import os
import statistics
from collections import defaultdict
from pathlib import Path

DOCS = Path(__file__).parent.parent.parent / "docs" / "internals"
RESULTS = Path(__file__).parent / "results.json"
_TEXT = Path(__file__).parent / "reliability.md"  # all but the tables
_KINDS = {"worker": "a worker", "jvm": "its JVM", "tasks": "its Python tasks", "temporal": "Temporal"}


def write_report(out):
    """Add up what was written down, keep that, and write the page and its chart. Gives the results."""
    results = summed(out, **json.loads((out / "run.json").read_text()))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    (DOCS / "reliability.md").write_text(page(results))
    memory = [json.loads(line) for line in (out / "memory.jsonl").read_text().splitlines()]
    _draw(memory, DOCS / "soak.png")
    return results


def summed(out, seed, minutes, commit):
    """All runs by fault."""
    runs = [json.loads(line) for path in sorted(out.glob("*-*.jsonl")) for line in path.read_text().splitlines()]
    by_fault = defaultdict(list)
    for run in runs:
        by_fault[run["fault"]].append(run)
    memory = [json.loads(line) for line in (out / "memory.jsonl").read_text().splitlines()]
    return {
        "seed": seed,
        "minutes": minutes,
        "commit": commit,
        "cores": os.cpu_count(),
        "faults": {name: _row(found) for name, found in by_fault.items()},
        "memory": _flat(memory),
    }


def _row(runs):
    right = [run for run in runs if "state" in run]
    return {
        "runs": len(runs),
        "bundles": sum(run["state"] == "done" for run in right),
        "canceled": sum(run["state"] == "canceled" for run in right),
        "refused": sum(run["refused"] for run in right),
        "wrong": len(runs) - len(right),
        "requests": sum(run["faults"] for run in right),
        "median": round(statistics.median(run["seconds"] for run in runs), 1),
        "longest": max(run["seconds"] for run in runs),
        "seeds of what was wrong": [run["seed"] for run in runs if "state" not in run],
    }


def _flat(memory):
    """MiB in the second and in the last quarter of the time, of what there is one or two of."""
    found = {}
    for kind in _KINDS:
        names = [name for name in memory[0] if name.startswith(kind)]
        quarter = max(1, len(memory) // 4)
        early, late = (
            round(statistics.mean(sample[name] for sample in part for name in names))
            for part in (memory[quarter : 2 * quarter] or memory, memory[-quarter:])
        )
        found[kind] = [early, late]
    return found


def grown(results):
    """What has more memory late than early, by more than a tenth and 20 MiB. In a short run all still warms up."""
    if results["minutes"] < 30:
        return []
    return [kind for kind, (early, late) in results["memory"].items() if late > 1.1 * early + 20]


def page(results):
    """The page, out of its text and the results."""
    text = _TEXT.read_text()
    for name, table in (("FAULTS", _faults(results)), ("MEMORY", _memory(results)), ("RUN", _run(results))):
        text = text.replace(f"<!-- {name} -->", table)
    return text


def _run(results):
    faults = results["faults"].values()
    runs, wrong = sum(row["runs"] for row in faults), sum(row["wrong"] for row in faults)
    told = f"The last run: {results['minutes']:g} minutes on {results['cores']} cores, of commit {results['commit']}"
    return f"{told} and from seed {results['seed']}: {runs:,} diamonds, {wrong} with something wrong."


def _faults(results):
    head = (
        "| fault | runs | bundles | canceled | clear refusals | lost or wrong | requests hit | median s | longest s |"
    )
    lines = [head, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, row in results["faults"].items():
        numbers = (
            row[key] for key in ("runs", "bundles", "canceled", "refused", "wrong", "requests", "median", "longest")
        )
        lines.append(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |")
    return "\n".join(lines)


def _memory(results):
    lines = ["| MiB | second quarter of the time | last quarter |", "| --- | --- | --- |"]
    for kind, (early, late) in results["memory"].items():
        lines.append(f"| {_KINDS[kind]} | {early:,} | {late:,} |")
    return "\n".join(lines)


def _draw(memory, path):
    """Memory over time. Without matplotlib, which only benchmarks need, there is no chart."""
    try:
        import matplotlib as mpl
    except ImportError:
        return
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4))
    minutes = [sample["minute"] for sample in memory]
    for name in memory[0]:
        if name != "minute":
            axes.plot(minutes, [sample[name] for sample in memory], label=name, linewidth=1)
    axes.set_xlabel("minutes")
    axes.set_ylabel("MiB in memory")
    axes.set_ylim(bottom=0)
    axes.legend(ncols=4, fontsize="small")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
