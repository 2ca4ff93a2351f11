"""Draws the README's pictures from the recorded results.

Usage: plots.py, run by `make plots`. Of each machine and topic the newest
result is drawn, into bench/plots/TOPIC-MACHINE.svg: one pair of bars a record
that has a peer, ours and the peer's, with the ratio beside it, and one bar a
record that has a limit, with its share.
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
OURS, THEIRS = "#2a6f97", "#b8c4cc"


def newest() -> dict[tuple[str, str], dict]:
    results = {}
    for path in sorted((BENCH / "results").glob("*.json")):
        name = re.fullmatch(r"\d{4}-\d\d-\d\d-(.+)-([^-]+)", path.stem)
        results[name[2], name[1]] = json.loads(path.read_text())
    return results


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(path: Path, topic: str, result: dict) -> None:
    records = [r for r in result["records"] if "peer" in r or "limit" in r]
    if not records:
        return
    figure, axes = plt.subplots(figsize=(8, 0.9 + 0.55 * len(records)), layout="constrained")
    longest = 0.0
    for row, r in enumerate(records):
        note = f"{r['ratio']:.1f}x" if "peer" in r else f"{r['share']:.0%} of the limit"
        axes.barh(row - 0.19, r["value"], 0.36, color=OURS)
        axes.text(r["value"], row - 0.19, f" {number(r['value'])} {r['unit']}, {note}", va="center")
        longest = max(longest, r["value"])
        if "peer" in r:
            axes.barh(row + 0.19, r["peer_value"], 0.36, color=THEIRS)
            axes.text(r["peer_value"], row + 0.19, f" {number(r['peer_value'])}, {r['peer']}", va="center", color="#555555")
            longest = max(longest, r["peer_value"])
    axes.set_yticks(range(len(records)), [r["name"] for r in records])
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.45)
    axes.spines[["top", "right"]].set_visible(False)
    machine = result["machine"]
    where = "; ".join(filter(None, [machine["cpu"], machine["gpu"], machine["date"]]))
    axes.set_title(f"{topic}: Quiver (blue) and its peers\n{where}", loc="left", fontsize=9)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    print(path.relative_to(BENCH.parent))


if __name__ == "__main__":
    for (topic, machine), result in newest().items():
        draw(BENCH / "plots" / f"{topic}-{machine}.svg", topic, result)
