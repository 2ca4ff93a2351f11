"""Plots the recorded results.

Usage: plots.py, run by `make plots`. It plots the newest result of each machine and
topic into bench/plots/TOPIC-MACHINE.svg.
"""

import json
import re
from pathlib import Path

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "quiver"  # the same results draw the same file
matplotlib.rcParams["font.size"] = 9
import matplotlib.pyplot as plt  # noqa: E402  (after the backend is chosen)

BENCH = Path(__file__).resolve().parent
OURS, BEHIND = "#2a6f97", "#c7884f"
WIDEST = 1.3  # greatest share on the axis
MANY = 60  # with more records, rows are groups


def newest() -> dict[tuple[str, str], dict]:
    results = {}
    for path in sorted((BENCH / "results").glob("*.json")):
        name = re.fullmatch(r"\d{4}-\d\d-\d\d-(.+)-([^-]+)", path.stem)
        results[name[2], name[1]] = json.loads(path.read_text())
    return results


def rows_of(records: list[dict]) -> list[tuple[str, list[dict]]]:
    """The rows of a plot: one per record, or one per first two words of the name if
    there are many records."""
    if len(records) <= MANY:
        return [(r["name"], [r]) for r in records]
    rows: dict[str, list[dict]] = {}
    for r in records:
        words = r["name"].removeprefix("cpu-").split("-")
        rows.setdefault("-".join(words[:2]), []).append(r)
    return [(f"{name} ({len(group)})", group) for name, group in sorted(rows.items())]


def dots(axes, row: int, values: list[float], text: str, widest: float) -> None:
    """Draws a bar for one value, or a dot per value for several."""
    values = [min(v, widest) for v in values]
    if len(values) == 1:
        axes.barh(row, values[0], 0.7, color=OURS if values[0] >= 1 or widest == WIDEST else BEHIND)
        axes.text(values[0], row, f" {text}", va="center")
    elif values:
        axes.plot(values, [row] * len(values), "o", markersize=3, alpha=0.4, color=OURS)


def draw(path: Path, topic: str, result: dict) -> None:
    """Draws two panels: the ratio to the peer on a logarithmic axis, and the share of
    the limit."""
    rows = rows_of([r for r in result["records"] if "peer" in r or "limit" in r])
    if not rows:
        return
    figure, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(10, 0.9 + 0.28 * len(rows)), layout="constrained")
    ratios = [r["ratio"] for _, group in rows for r in group if "peer" in r]
    for row, (_, group) in enumerate(rows):
        first = group[0]
        dots(left, row, [r["ratio"] for r in group if "peer" in r], f"{first.get('ratio', 0):.3g}x {first.get('peer')}", float("inf"))
        dots(right, row, [r["share"] for r in group if "limit" in r], f"{first.get('share', 0):.0%}", WIDEST)
    left.set_xscale("log")
    left.set_xlim(min([0.5, *ratios]) * 0.9, max([2, *ratios]) * 12)
    left.set_title("times better than the peer", fontsize=9)
    right.set_xlim(0, WIDEST * 1.15)
    right.set_title("share of the limit", fontsize=9)
    left.set_yticks(range(len(rows)), [name for name, _ in rows])
    left.invert_yaxis()
    for axes in (left, right):
        axes.axvline(1, color="#555555", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
    machine = result["machine"]
    where = "; ".join(filter(None, [machine["cpu"], machine["gpu"], machine["date"]]))
    figure.suptitle(f"{topic}: {where}", fontsize=10)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path.relative_to(BENCH.parent))


if __name__ == "__main__":
    for (topic, machine), result in newest().items():
        draw(BENCH / "plots" / f"{topic}-{machine}.svg", topic, result)
