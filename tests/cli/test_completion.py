import socket

import pytest

from millstream.client.groups import alter_group_offsets
from millstream.client.session import AdminSession
from millstream.model.topics import TopicPartition
from tests.cli.conftest import Command, millstream


def complete_live(words: str, *, bootstrap: str) -> list[str]:
    """As `complete`, asked again while nothing comes: on a busy machine the broker may miss its short time."""
    return next((found for _ in range(10) if (found := complete(words, bootstrap=bootstrap))), [])


def complete(words: str, *, bootstrap: str | None = None) -> list[str]:
    """What bash would offer after `words`, asked as its completion script asks."""
    variables = {
        "_MILLSTREAM_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - (not words.endswith(" "))),
    }
    if bootstrap is not None:
        variables["MILLSTREAM_BOOTSTRAP"] = bootstrap
    answer = millstream(env=variables)
    assert answer.stderr == b""
    return answer.stdout.decode().split()


def test_commands_are_completed() -> None:
    assert complete("millstream t") == ["topics", "tail"]
    assert "describe" in complete("millstream topics ")


@pytest.mark.parametrize(
    "command", ["topics describe", "topics delete", "topics config get", "tail", "produce"]
)
def test_topics_are_completed_from_the_live_broker(bootstrap: str, topic: str, command: str) -> None:
    assert complete_live(f"millstream {command} {topic[:-2]}", bootstrap=bootstrap) == [topic]


@pytest.mark.parametrize("command", ["groups describe", "groups reset", "groups delete"])
def test_groups_are_completed_from_the_live_broker(
    bootstrap: str, session: AdminSession, topic: str, group: str, command: str
) -> None:
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})

    assert complete_live(f"millstream {command} {group[:-2]}", bootstrap=bootstrap) == [group]


def test_the_broker_named_in_the_command_is_the_one_asked(bootstrap: str, topic: str) -> None:
    words = f"millstream topics describe --bootstrap {bootstrap} {topic[:-2]}"

    assert complete_live(words, bootstrap="127.0.0.1:1") == [topic]


def test_internal_topics_are_offered_only_once_begun(
    bootstrap: str, session: AdminSession, topic: str, group: str
) -> None:
    alter_group_offsets(session, group, {TopicPartition(topic, 0): 0})

    assert "__consumer_offsets" not in complete("millstream tail ", bootstrap=bootstrap)
    assert complete_live("millstream tail __c", bootstrap=bootstrap) == ["__consumer_offsets"]


def test_an_unreachable_broker_completes_to_nothing_without_a_word() -> None:
    assert complete("millstream tail o", bootstrap="127.0.0.1:1") == []


def test_neither_does_one_that_takes_connections_and_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert complete("millstream tail o", bootstrap=f"127.0.0.1:{silent.getsockname()[1]}") == []


def test_settings_of_a_topic_are_completed(bootstrap: str) -> None:
    assert complete("millstream topics config set orders retention.m", bootstrap=bootstrap) == [
        "retention.ms="
    ]


def test_the_shell_script_can_be_had(command: Command) -> None:
    answer = command(env={"_MILLSTREAM_COMPLETE": "source_bash"})

    assert b"complete -o default -F _millstream_completion millstream" in answer.stdout
