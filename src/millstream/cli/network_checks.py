"""What `millstream doctor` looks at on the network: our ports, and the broker that commands would ask.

Why: "address already in use" and "connection refused" are the two commonest first errors.
Invariants: a port is only connected to or bound for a moment, never held; a busy port that answers as what we
would serve there is ok; checks return findings whatever they meet.
"""

import errno
import socket
from pathlib import Path

from millstream.cli.findings import Finding, fail, ok, warn
from millstream.client.connection import Connection
from millstream.client.errors import BrokerUnreachable
from millstream.client.raw import Cursor, ProtocolBroken, exchange
from millstream.model.errors import MillstreamError

_API_VERSIONS = 18
_TIMEOUT_S = 1.0


def check_port(name: str, host: str, port: int, flag: str) -> Finding:
    """Whether a node could listen there; if not, who does."""
    check = f"{name} port"
    where = f"{host}:{port}"
    if port == 0:
        return ok(check, "any free one")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return _not_free(check, name, where, host, port, flag, error)
    return ok(check, f"{where} is free")


def _not_free(check: str, name: str, where: str, host: str, port: int, flag: str, error: OSError) -> Finding:
    if error.errno in (errno.EACCES, errno.EPERM):
        return fail(check, f"{where}: no permission", f"choose a port above 1023 with {flag}")
    if error.errno != errno.EADDRINUSE:
        return fail(check, f"{where}: {error.strerror}", "choose an address of this machine with --host")
    owner = listener_of(port)
    by = f" by {owner}" if owner else ""
    served = answers_as(name, "127.0.0.1" if host in ("0.0.0.0", "") else host, port)
    if served:
        return ok(check, f"{where} is served{by} and answers as {served}")
    return warn(check, f"{where} is in use{by}", f"stop it, or choose another with {flag}")


def answers_as(name: str, host: str, port: int) -> str | None:
    """What answers on a port that we would use for `name`; None when it is something else."""
    try:
        if name == "kafka":
            return f"a Kafka broker ({kafka_apis(host, port)} requests)"
        if name == "amqp":
            answer = _first_bytes(host, port, b"AMQP\x00\x00\x09\x01")
            return "AMQP 0-9-1" if answer[:1] == b"\x01" else None
        answer = _first_bytes(host, port, b"GET /livez HTTP/1.0\r\nHost: localhost\r\n\r\n")
        return "HTTP" if answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")) else None
    except (OSError, ProtocolBroken):
        return None


def kafka_apis(host: str, port: int) -> int:
    """How many kinds of requests a Kafka broker serves (ApiVersions 0). Raises OSError, ProtocolBroken."""
    body = exchange(
        host, port, api_key=_API_VERSIONS, version=0, body=b"", flexible=False, timeout_s=_TIMEOUT_S
    )
    cursor = Cursor(body, f"{host}:{port}")
    error_code, count = cursor.int16(), cursor.int32()
    if error_code or not 0 < count < 1_000:
        raise ProtocolBroken(f"{host}:{port}", f"error {error_code}, {count} requests")
    return count


def _first_bytes(host: str, port: int, question: bytes) -> bytes:
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as connection:
        connection.sendall(question)
        return connection.recv(64)


def listener_of(port: int, proc: Path = Path("/proc")) -> str | None:
    """`name (pid N)` of the process that listens on a port; None when it can't be seen from here."""
    inodes = {inode for table in ("tcp", "tcp6") for inode in _listening_inodes(proc / "net" / table, port)}
    if not inodes:
        return None
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for process in proc.glob("[0-9]*"):
        try:
            if any(str(link.readlink()) in wanted for link in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
        except OSError:  # another user's process, or one that just ended
            continue
    return None


def _listening_inodes(table: Path, port: int) -> list[str]:
    try:
        lines = table.read_text().splitlines()[1:]
    except OSError:
        return []
    rows = [line.split() for line in lines]
    return [row[9] for row in rows if row[3] == "0A" and int(row[1].rpartition(":")[2], 16) == port]


def check_bootstrap(connection: Connection) -> Finding:
    """Whether the commands' broker answers, and which cluster it is."""
    check = "broker"
    try:
        connection.require_reachable()
        from millstream.client.cluster import describe_cluster
        from millstream.client.session import AdminSession

        with AdminSession(connection) as session:
            cluster = describe_cluster(session)
    except BrokerUnreachable as error:
        return warn(
            check,
            f"none at {connection.bootstrap} ({error.reason})",
            "start one with `millstream up`, or name another with --bootstrap",
        )
    except MillstreamError as error:
        return fail(check, str(error), "check --bootstrap and -X")
    brokers = ", ".join(f"{broker.host}:{broker.port}" for broker in cluster.brokers)
    return ok(check, f"{connection.bootstrap} answers: cluster {cluster.cluster_id} of {brokers}")
