"""A process that asks a store for one run and adds a line to a file each time it computes it.

`python asking.py STORE COUNTER`: says "asking" first, then waits for a line on its input.
"""

import sys
import time
from pathlib import Path

from headbook.runs.store import Ingredients, Stage, Store

ASKED = Ingredients(Stage("slow", 1), {"size": 3}, {}, {})

if __name__ == "__main__":
    store, counter = Store(Path(sys.argv[1])), Path(sys.argv[2])

    def make(folder: Path) -> None:
        with counter.open("a") as lines:
            lines.write("computed\n")
        # Long enough for the other process to find the lock taken.
        time.sleep(1.0)
        (folder / "result.txt").write_text("42")

    print("asking", flush=True)
    sys.stdin.readline()
    print((store.get(ASKED, make) / "result.txt").read_text(), flush=True)
