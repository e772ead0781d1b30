"""What `millstream doctor` looks at on this machine: Python, packages, Java, limits, clock, disk.

Why: most trouble on a new machine is one of these, and each has a known answer.
Invariants: nothing is changed, but for a scratch file that is removed again; every check returns a finding
whatever it meets; a check fails only if a node could not run, or could not keep its promises.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

from millstream.cli import human
from millstream.cli.findings import Finding, fail, ok, warn
from millstream.model.settings import Settings

_PYTHON_MIN = (3, 11)
_JAVA_MIN = 17
_RELEASED_S = 1_760_000_000  # October 2025; a clock before that is wrong
_FILES_MIN = 1_024
_NETWORK_FILESYSTEMS = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph", "glusterfs"})
_MEMORY_FILESYSTEMS = frozenset({"tmpfs", "ramfs"})
_SYNC_COUNT = 20
_SYNC_MS_SLOW = 20.0


def check_python() -> Finding:
    version = platform.python_version()
    if sys.version_info < _PYTHON_MIN:
        return fail("python", version, "install Python 3.11 or newer")
    return ok("python", f"{version} ({sys.executable})")


def check_accelerator() -> Finding:
    """Whether records are checked by compiled code."""
    from millstream.codec.scan import IS_ACCELERATED

    if IS_ACCELERATED:
        return ok("accelerator", "compiled")
    return warn(
        "accelerator",
        "not built: Python checks the records, which takes a hundred times as long",
        "install a C compiler and Python's headers (gcc, python3-dev), then millstream again",
    )


def check_packages() -> Finding:
    """Our declared requirements, installed at the versions that were tested."""
    try:
        found_lines = (_requirement(line) for line in metadata.requires("millstream") or ())
        wanted = [pair for pair in found_lines if pair is not None]
    except metadata.PackageNotFoundError:
        return warn("packages", "millstream is not installed as a package", "pip install millstream")
    missing, other = [], []
    for name, version in wanted:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
            continue
        if version and found != version:
            other.append(f"{name} {found} instead of {version}")
    if missing:
        return fail("packages", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    if other:
        return warn("packages", "; ".join(other), "pip install --force-reinstall millstream")
    return ok("packages", f"{len(wanted)} requirements installed as tested")


def _requirement(line: str) -> tuple[str, str] | None:
    """(name, pinned version or '') of a requirement that applies here; None for an extra's."""
    text, _, marker = line.partition(";")
    if "extra" in marker or ("sys_platform != 'win32'" in marker.replace('"', "'") and os.name == "nt"):
        return None
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:==\s*([A-Za-z0-9._-]+))?", text)
    return None if match is None else (match[1], match[2] or "")


def check_java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    advice = f"only Spark pipelines need it: install Java {_JAVA_MIN} or newer"
    if java is None:
        where = f"no java in JAVA_HOME ({home})" if home else "not found"
        return warn("java", where, advice)
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return warn("java", f"{java} does not run ({error})", advice)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr)
    if match is None:
        return warn("java", f"{java} does not tell its version", advice)
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])
    if version < _JAVA_MIN:
        return warn("java", f"Java {version} ({java})", advice)
    return ok("java", f"Java {version} ({java})")


def check_open_files(settings: Settings) -> Finding:
    try:
        import resource
    except ImportError:  # not on this platform
        return ok("open files", "no limit on this platform")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return ok("open files", "no limit")
    wanted = settings.log_open_files_max + 256
    advice = f"ulimit -n {max(4_096, wanted)}" + (
        "" if hard in (resource.RLIM_INFINITY,) or hard > wanted else " (the hard limit must be raised too)"
    )
    if soft < _FILES_MIN:
        return fail("open files", f"limit {soft}", advice)
    if soft < wanted:
        return warn("open files", f"limit {soft}; log.open.files.max alone is {wanted - 256}", advice)
    return ok("open files", f"limit {soft}")


def check_clock(data: Path) -> Finding:
    """Retention and lookups by time go wrong with the clock."""
    now_s = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now_s))
    if now_s < _RELEASED_S:
        return fail("clock", f"{shown} is before this release was made", "set the clock; use NTP")
    newest = max((path.stat().st_mtime for path in data.glob("topics/*/*.log")), default=0.0)
    if newest > now_s + 60:
        ahead = human.duration(newest - now_s)
        return warn(
            "clock", f"{shown}; the data directory was written {ahead} later", "check the clock; use NTP"
        )
    return ok("clock", shown)


def check_disk(data: Path, settings: Settings) -> list[Finding]:
    """Space, file system and sync speed where the log lives, or will live."""
    place = nearest_existing(data)
    where = str(data) if place == data else f"{data} (not there yet; {place})"
    if not os.access(place, os.W_OK):
        return [fail("data directory", f"{place} can't be written to", "choose another with --data")]
    findings = [ok("data directory", where), _check_space(place, settings), _check_filesystem(place)]
    findings.append(_check_sync(place))
    return findings


def _check_space(place: Path, settings: Settings) -> Finding:
    usage = shutil.disk_usage(place)
    detail = f"{human.size(usage.free)} free of {human.size(usage.total)}"
    if usage.free < settings.log_disk_reserve_bytes:
        return fail("disk space", detail, "free some: produces are refused below log.disk.reserve.bytes")
    if usage.free < 1 << 30 or usage.free < usage.total * 0.05:
        return warn("disk space", detail, "free some, or lower retention.ms or retention.bytes")
    return ok("disk space", detail)


def _check_filesystem(place: Path) -> Finding:
    kind = filesystem_of(place)
    if kind is None:
        return ok("file system", "not known on this platform")
    if kind in _NETWORK_FILESYSTEMS:
        return warn("file system", kind, "use a local disk: syncs over a network are slow, and locks unsure")
    if kind in _MEMORY_FILESYSTEMS:
        return warn(
            "file system", kind, "this is memory: everything is lost at a restart; choose another --data"
        )
    return ok("file system", kind)


def _check_sync(place: Path) -> Finding:
    try:
        median_ms = sync_ms(place)
    except OSError as error:
        return fail(
            "sync", f"fsync failed ({error.strerror})", "check the disk; nothing can be kept safe on it"
        )
    detail = f"{median_ms:.2f} ms for each fdatasync (median of {_SYNC_COUNT})"
    if median_ms > _SYNC_MS_SLOW:
        return warn("sync", detail, "acks=all waits for it: a faster disk, or log.fsync=interval at a risk")
    return ok("sync", detail)


def sync_ms(place: Path) -> float:
    """Median milliseconds of syncing 4 KiB appended to a file in `place`."""
    sync = getattr(os, "fdatasync", os.fsync)
    taken = []
    with tempfile.NamedTemporaryFile(dir=place, prefix=".millstream-doctor-") as scratch:
        for _ in range(_SYNC_COUNT):
            os.write(scratch.fileno(), b"\0" * 4_096)
            started = time.perf_counter()
            sync(scratch.fileno())
            taken.append((time.perf_counter() - started) * 1_000)
    return sorted(taken)[_SYNC_COUNT // 2]


def nearest_existing(path: Path) -> Path:
    path = path.absolute()
    return next(place for place in (path, *path.parents) if place.exists())


def filesystem_of(place: Path, mounts: Path = Path("/proc/mounts")) -> str | None:
    """Type of the file system that holds a path; None where the platform doesn't list its mounts."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    found, length = None, -1
    resolved = place.resolve()
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(fields[1].replace("\\040", " "))
        if resolved.is_relative_to(point) and len(point.parts) >= length:
            found, length = fields[2], len(point.parts)
    return found
