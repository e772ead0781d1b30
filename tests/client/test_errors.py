import pytest
from confluent_kafka import KafkaError

from millstream.client.errors import (
    BrokerBusy,
    BrokerRefused,
    BrokerTimedOut,
    BrokerUnreachable,
    CorruptRecords,
    GroupInUse,
    InvalidOption,
    NotAuthorized,
    RecordTooLarge,
    TopicExists,
    UnknownGroup,
    UnknownTopic,
    from_kafka_error,
)
from millstream.model.errors import MillstreamError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, BrokerUnreachable),
        (KafkaError._RESOLVE, BrokerUnreachable),
        (KafkaError._ALL_BROKERS_DOWN, BrokerUnreachable),
        (KafkaError._SSL, BrokerUnreachable),
        (KafkaError._TIMED_OUT, BrokerTimedOut),
        (KafkaError._MSG_TIMED_OUT, BrokerTimedOut),
        (KafkaError._TIMED_OUT_QUEUE, BrokerTimedOut),
        (KafkaError.REQUEST_TIMED_OUT, BrokerTimedOut),
        (KafkaError._AUTHENTICATION, NotAuthorized),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorized),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, NotAuthorized),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NotAuthorized),
        (KafkaError.SASL_AUTHENTICATION_FAILED, NotAuthorized),
        (KafkaError._UNKNOWN_TOPIC, UnknownTopic),
        (KafkaError._UNKNOWN_PARTITION, UnknownTopic),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnknownTopic),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicExists),
        (KafkaError.GROUP_ID_NOT_FOUND, UnknownGroup),
        (KafkaError.NON_EMPTY_GROUP, GroupInUse),
        (KafkaError.MSG_SIZE_TOO_LARGE, RecordTooLarge),
        (KafkaError.RECORD_LIST_TOO_LARGE, RecordTooLarge),
        (KafkaError._INVALID_ARG, InvalidOption),
        (KafkaError._BAD_MSG, CorruptRecords),
        (KafkaError._BAD_COMPRESSION, CorruptRecords),
        (KafkaError.INVALID_MSG, CorruptRecords),
        (KafkaError.KAFKA_STORAGE_ERROR, BrokerBusy),
        (KafkaError.POLICY_VIOLATION, BrokerRefused),
    ],
)
def test_each_code_has_its_family(code: int, kind: type[MillstreamError]) -> None:
    error = from_kafka_error(KafkaError(code), bootstrap="there:9092", subject="orders")

    assert type(error) is kind
    assert "\n" not in str(error)


def test_what_may_pass_is_told_to_be_tried_again() -> None:
    error = from_kafka_error(
        KafkaError(KafkaError.NOT_ENOUGH_REPLICAS, "too few", False, True), bootstrap="there:9092"
    )

    assert str(error) == "there:9092: too few: try again shortly"


def test_a_refusal_keeps_the_brokers_words_and_the_code_to_search_for() -> None:
    error = from_kafka_error(
        KafkaError(KafkaError.INVALID_CONFIG, "Unknown topic config name: x"),
        bootstrap="there:9092",
        subject="orders",
    )

    assert str(error) == "orders: Unknown topic config name: x (INVALID_CONFIG)"


def test_a_mistyped_name_is_answered_with_those_that_come_close() -> None:
    near = UnknownTopic("Order", ["orders", "payments", "order-lines", "Orders2"])
    nearest = UnknownTopic("paymnt", ["payments-2026", "orders", "payables"])

    assert str(near) == "topic 'Order' does not exist: did you mean 'orders' or 'Orders2'?"
    assert str(nearest) == "topic 'paymnt' does not exist: did you mean 'payments-2026'?"


def test_a_name_like_no_other_is_answered_with_how_to_list_them() -> None:
    assert str(UnknownGroup("x", ["billing"])).endswith("`millstream groups list` shows those that do")
