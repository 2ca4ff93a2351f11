"""Writes programs.txt: the results of random programs of array operations in NumPy.

Run from the root of the repository, which needs Go ($GO):
    .venv/bin/python ndview/testdata/golden/programs.py > ndview/testdata/golden/programs.txt
or, to check other programs, of a new random seed each time:
    .venv/bin/python ndview/testdata/golden/programs.py --check [--seed SEED] [--programs COUNT]

`go test` makes the programs from the steps in ndview/programs_*_test.go. This script runs
the steps in NumPy and writes the results after them.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import numpy as np

from program_steps import CHANGES, MAKES
from program_words import Words, text

ROOT = pathlib.Path(__file__).resolve().parents[3]
WRONG = (TypeError, ValueError, IndexError, OverflowError)
np.seterr(all="ignore")
warnings.simplefilter("ignore")


def run(arrays, line):
    """Returns the result of a line, which makes or changes an array."""
    name, makes, call = line.rpartition(" = ")
    step, *words = call.split(" ")
    w = Words(arrays, words)
    try:
        if makes:
            arrays[name] = MAKES[step](w)
            return text(arrays[name])
        target = arrays[words[0]]
        before = target.copy()
        try:
            CHANGES[step](w)
        except WRONG:
            if target.flags.writeable:
                target[...] = before
            raise
        return text(target)
    except WRONG as e:
        if os.environ.get("EXPLAIN"):
            print(f"{line}: {type(e).__name__}: {e}", file=sys.stderr)
        return "!"


def programs(seed, count):
    """Yields the programs of go test, with results."""
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as file:
        test = [os.environ.get("GO", "go"), "test", "./ndview", "-run", "^TestWritePrograms$", "-count=1"]
        subprocess.run(test, cwd=ROOT, check=True, stdout=sys.stderr, env=os.environ | {"QUIVER_NEW_PROGRAMS": f"{seed} {count} {file.name}"})
        for program in file.read().strip().split("\n\n"):
            arrays, lines = {}, []
            for line in program.split("\n"):
                try:
                    lines.append(f"{line} > {run(arrays, line)}")
                except KeyError:  # NumPy has no array where ndview made one
                    break
            yield "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--programs", type=int)
    ask = parser.parse_args()
    if not ask.check:
        print("\n\n".join(programs(ask.seed or 1, ask.programs or 150)))
        return 0
    seed = random.randrange(1 << 32) if ask.seed is None else ask.seed
    count = ask.programs or 2000
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n\n".join(programs(seed, count)))
        file.flush()
        test = [os.environ.get("GO", "go"), "test", "./ndview", "-run", "^TestProgramsMatchNumPy$", "-count=1"]
        done = subprocess.run(test, cwd=ROOT, env=os.environ | {"QUIVER_PROGRAMS": file.name})
    print(f"{count} programs of seed {seed}: {'as in NumPy' if done.returncode == 0 else 'NOT AS IN NUMPY'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
