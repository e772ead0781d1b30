"""What of the system these tests need, and saying loudly when it is missing."""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
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
