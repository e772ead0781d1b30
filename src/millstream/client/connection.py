"""Where the broker is, and the options of the client library.

Why: every client of ours is opened from the same few values: an address and Kafka options by their own names.
Invariants: options keep Kafka's names; a leading `kafka.` (Spark's way) is dropped; secrets never appear in
`repr`; the library's own log is silent unless asked for, since failures come back as our errors.
"""

import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from millstream.client.errors import BrokerUnreachable, InvalidOption
from millstream.model.errors import BadRequest

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
_PORT_DEFAULT = 9092


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An address (`host:port,host:port`) and options. Opens nothing by itself."""

    bootstrap: str = BOOTSTRAP_DEFAULT
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 10.0
    """How long one question to the broker may take."""

    def config(self, **defaults: str | int | bool) -> dict[str, str | int | float | bool]:
        """Options for confluent-kafka; `defaults` use `_` for `.`, and the user's options win over them."""
        config: dict[str, str | int | float | bool] = {"log_level": 0, "client.id": "millstream"}
        config.update({name.replace("_", "."): value for name, value in defaults.items()})
        config.update(self.options)
        config["bootstrap.servers"] = self.bootstrap
        return config

    @property
    def is_plaintext(self) -> bool:
        """Whether a bare socket speaks to this broker: neither TLS nor SASL is asked for."""
        return self.options.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"

    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each bootstrap server. Raises InvalidOption."""
        return [_address(part) for part in self.bootstrap.split(",") if part.strip()]

    def require_reachable(self, timeout_s: float = 3.0) -> None:
        """Raise BrokerUnreachable unless one bootstrap server takes a TCP connection.

        librdkafka retries a refused connection until its timeout; a person should know at once.
        """
        reason = "no address given"
        for host, port in self.addresses():
            try:
                socket.create_connection((host, port), timeout=timeout_s).close()
            except OSError as error:
                reason = _reason(error)
            else:
                return
        raise BrokerUnreachable(self.bootstrap, reason)


def parse_options(pairs: Iterable[str]) -> dict[str, str]:
    """Options from `name=value`, or `@FILE` naming a properties file (for secrets). Raises BadRequest."""
    options: dict[str, str] = {}
    for pair in pairs:
        if pair.startswith("@"):
            options.update(_options_in_file(Path(pair[1:])))
        else:
            options.update([_option(pair)])
    return options


def _option(pair: str) -> tuple[str, str]:
    name, separator, value = pair.partition("=")
    if not separator or not name.strip():
        raise BadRequest(f"-X {pair!r}: write it as option=value, for example -X security.protocol=SSL")
    return name.strip().removeprefix("kafka."), value.strip()


def _options_in_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"-X @{path}: can't be read ({error}): give a file of option=value lines") from None
    return dict(_option(line.strip()) for line in lines if line.strip() and line.lstrip()[0] not in "#!")


def _address(text: str) -> tuple[str, int]:
    bare = text.strip().rpartition("://")[2]
    host, separator, port = bare.rpartition(":")
    if not separator or bare.endswith("]"):
        host, port = bare, str(_PORT_DEFAULT)
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidOption(f"bootstrap server {text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer to a connection"
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    return (error.strerror or str(error)).lower()
