"""Draws the README's pictures from the recorded results.

Usage: plots.py, run by `make plots`. Of each machine and topic the newest
result is drawn, into bench/plots/TOPIC-MACHINE.svg.
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
WIDEST = 1.3  # of the shares that are drawn


def newest() -> dict[tuple[str, str], dict]:
    results = {}
    for path in sorted((BENCH / "results").glob("*.json")):
        name = re.fullmatch(r"\d{4}-\d\d-\d\d-(.+)-([^-]+)", path.stem)
        results[name[2], name[1]] = json.loads(path.read_text())
    return results


def bar(axes, row: int, share: float, text: str, color: str) -> None:
    axes.barh(row, share, 0.7, color=color)
    axes.text(share, row, f" {text}", va="center")


def draw(path: Path, topic: str, result: dict) -> None:
    """Two panels of one row a record: how many times better than the peer, on a
    logarithmic axis, and the part of the limit that is reached."""
    records = [r for r in result["records"] if "peer" in r or "limit" in r]
    if not records:
        return
    figure, (left, right) = plt.subplots(1, 2, sharey=True, figsize=(10, 0.9 + 0.28 * len(records)), layout="constrained")
    for row, r in enumerate(records):
        if "peer" in r:
            bar(left, row, r["ratio"], f"{r['ratio']:.3g}x {r['peer']}", OURS if r["ratio"] >= 1 else BEHIND)
        if "limit" in r:
            bar(right, row, min(r["share"], WIDEST), f"{r['share']:.0%}", OURS)
    ratios = [r["ratio"] for r in records if "peer" in r]
    left.set_xscale("log")
    left.set_xlim(min([0.5, *ratios]) * 0.9, max([2, *ratios]) * 12)
    left.set_title("times better than the peer", fontsize=9)
    right.set_xlim(0, WIDEST * 1.15)
    right.set_title("share of the limit", fontsize=9)
    left.set_yticks(range(len(records)), [r["name"] for r in records])
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
