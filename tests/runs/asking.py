"""A process that asks a store for one run and adds a line to a file each time it computes it.

`python asking.py STORE COUNTER FINISH`: says "asking" first, then waits for a line on its input.
What it computes is not done before there is a file FINISH.
"""

import sys
import time
from pathlib import Path

from headbook.runs.store import Ingredients, Stage, Store

ASKED = Ingredients(Stage("slow", 1), {"size": 3}, {}, {})

if __name__ == "__main__":
    store, counter, finish = Store(Path(sys.argv[1])), Path(sys.argv[2]), Path(sys.argv[3])

    def make(folder: Path) -> None:
        with counter.open("a") as lines:
            lines.write("computed\n")
        while not finish.exists():
            time.sleep(0.01)
        (folder / "result.txt").write_text("42")

    print("asking", flush=True)
    sys.stdin.readline()
    print((store.get(ASKED, make) / "result.txt").read_text(), flush=True)
