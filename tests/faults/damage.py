"""Ways in which a disk can change a file behind our back."""

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, random.Random], tuple[int, int]]
"""Changes the file; returns the bytes [start, end) that are no longer what was written."""


def flip_a_bit(path: Path, chance: random.Random) -> tuple[int, int]:
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    content[place] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return place, place + 1


def blank_a_stretch(path: Path, chance: random.Random) -> tuple[int, int]:
    """Zeros, as a sector that was never written, or lost."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    end = min(len(content), place + chance.choice([16, 512, 4096]))
    content[place:end] = bytes(end - place)
    path.write_bytes(content)
    return place, end


def scramble_a_stretch(path: Path, chance: random.Random) -> tuple[int, int]:
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    end = min(len(content), place + chance.choice([8, 100, 512]))
    content[place:end] = chance.randbytes(end - place)
    path.write_bytes(content)
    return place, end


def cut_short(path: Path, chance: random.Random) -> tuple[int, int]:
    size = path.stat().st_size
    place = chance.randrange(size)
    with path.open("r+b") as file:
        file.truncate(place)
    return place, size


def add_garbage(path: Path, chance: random.Random) -> tuple[int, int]:
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(chance.randbytes(chance.choice([1, 61, 700])))
    return size, size


def remove(path: Path, chance: random.Random) -> tuple[int, int]:
    size = path.stat().st_size
    path.unlink()
    return 0, size


KINDS: tuple[Damage, ...] = (
    flip_a_bit,
    blank_a_stretch,
    scramble_a_stretch,
    cut_short,
    add_garbage,
    remove,
)
