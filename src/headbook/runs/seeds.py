"""One root seed; every use derives its own by name, so a new use shifts no other's stream."""

import hashlib


def derived(seed: int, name: str) -> int:
    """A seed in [0, 2³¹) for the use called `name`."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:4], "big") >> 1
