"""What of the system these tests need, and saying loudly when it is missing."""

import atexit
import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHIM_SOURCE = Path(__file__).parents[2] / "tools" / "faults.c"

needs_strace = pytest.mark.skipif(
    shutil.which("strace") is None,
    reason="DEATHS AT SYSTEM CALLS ARE NOT TESTED: no `strace` command; `apt-get install strace` brings it",
)
needs_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="NOT TESTED: mounting a file system takes root, and this is not root"
)
needs_shim = pytest.mark.skipif(
    shutil.which("cc") is None or sys.platform != "linux",
    reason="AIMED FAULTS ARE NOT TESTED: no C compiler `cc`, or not Linux; `apt-get install gcc` brings one",
)


@functools.cache
def shim() -> Path:
    """The library of tools/faults.c, compiled once."""
    library = Path(tempfile.mkdtemp(prefix="millstream-faults-")) / "faults.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SHIM_SOURCE, "-ldl"], check=True)
    atexit.register(shutil.rmtree, library.parent, ignore_errors=True)
    return library


def faults(*rules: str) -> dict[str, str]:
    """The environment of a node that these rules of tools/faults.c strike."""
    return {"LD_PRELOAD": str(shim()), "FAULTS": ";".join(rules)}


def inject(call: str, fault: str, *, when: str, log: str = "/dev/null") -> list[str]:
    """The command in front of a node's own that lets a system call fail, or kill its caller, at a chosen time."""
    rule = f"inject={call}:{fault}:when={when}"
    # Not with --seccomp-bpf: strace 6.1 loses count of the calls then.
    return ["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", rule, "--"]


@contextlib.contextmanager
def mounted(place: Path, *command: str) -> Iterator[Path]:
    """A file system at `place` for the length of a block; skips the test where mounting is not possible."""
    place.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["mount", *command, str(place)], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"NOT TESTED: this machine can't mount a file system: {made.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def small_disk(place: Path, size: str) -> contextlib.AbstractContextManager[Path]:
    return mounted(place, "-t", "tmpfs", "-o", f"size={size}", "tmpfs")


def fill(path: Path) -> None:
    """Write to a file until its disk has no byte left."""
    with path.open("ab", buffering=0) as file:
        for size in (1 << 16, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(bytes(size))
