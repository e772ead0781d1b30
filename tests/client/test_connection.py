import socket
from pathlib import Path

import pytest

from millstream.client.connection import Connection, parse_options
from millstream.client.errors import BrokerUnreachable, InvalidOption
from millstream.model.errors import BadRequest


def test_options_keep_kafkas_names_and_drop_sparks_prefix() -> None:
    assert parse_options(["kafka.security.protocol=SSL", "client.id=a=b"]) == {
        "security.protocol": "SSL",
        "client.id": "a=b",
    }


def test_options_can_come_from_a_file_so_that_secrets_stay_off_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# who\nsasl.username = me\n\nsasl.password=secret\n")

    assert parse_options([f"@{file}", "sasl.username=you"]) == {
        "sasl.username": "you",
        "sasl.password": "secret",
    }


@pytest.mark.parametrize("pair", ["no-value", "=value", "@/nowhere/at/all"])
def test_an_option_that_cant_be_read_is_refused_with_an_example(pair: str) -> None:
    with pytest.raises(BadRequest, match="option=value"):
        parse_options([pair])


def test_the_users_options_win_over_our_defaults_but_not_over_the_address() -> None:
    connection = Connection(bootstrap="a:1", options={"acks": "1", "bootstrap.servers": "b:2"})

    config = connection.config(acks="all", enable_idempotence=True)

    assert config["acks"] == "1"
    assert config["enable.idempotence"] is True
    assert config["bootstrap.servers"] == "a:1"


def test_secrets_do_not_show_in_a_connections_repr() -> None:
    assert "secret" not in repr(Connection(options={"sasl.password": "secret"}))


@pytest.mark.parametrize(
    ("bootstrap", "addresses"),
    [
        ("localhost", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        ("PLAINTEXT://a:1", [("a", 1)]),
        ("[::1]:19092", [("::1", 19092)]),
        ("[::1]", [("::1", 9092)]),
    ],
)
def test_addresses_are_read_in_every_form_that_clients_take(
    bootstrap: str, addresses: list[tuple[str, int]]
) -> None:
    assert Connection(bootstrap=bootstrap).addresses() == addresses


@pytest.mark.parametrize("bootstrap", ["host:port", "host:0", "host:70000", ":9092"])
def test_an_address_that_is_none_is_refused(bootstrap: str) -> None:
    with pytest.raises(InvalidOption, match="HOST:PORT"):
        Connection(bootstrap=bootstrap).addresses()


def test_a_refused_connection_is_told_at_once_with_what_to_do() -> None:
    port = unused_port()

    with pytest.raises(BrokerUnreachable) as caught:
        Connection(bootstrap=f"127.0.0.1:{port}").require_reachable()

    assert f"127.0.0.1:{port} (connection refused)" in str(caught.value)
    assert "`millstream up`" in str(caught.value)


def test_one_reachable_server_of_several_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        open_port = server.getsockname()[1]

        Connection(bootstrap=f"127.0.0.1:{unused_port()},127.0.0.1:{open_port}").require_reachable()


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
