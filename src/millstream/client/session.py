"""One admin connection to a cluster, with waiting and errors in one place.

Why: confluent-kafka answers every admin call with futures of untyped values; the retries, the time limit and
the translation of errors belong in one place instead of in every caller.
Invariants: `Any` stops here and in the files that unpack its answers; a call ends within `timeout_s`;
passing states of the broker are retried inside that time, refusals are raised at once.
"""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from types import TracebackType
from typing import Any, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from millstream.client.connection import Connection
from millstream.client.errors import BrokerTimedOut, BrokerUnreachable, InvalidOption, from_kafka_error
from millstream.model.errors import MillstreamError

# Seen while a coordinator loads, a leader is chosen or a topic is not yet known everywhere.
_PASSING = frozenset(
    {
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_CONTROLLER,
    }
)
_NO_CONNECTION = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})
_RETRY_PAUSE_S = 0.1


class AdminSession:
    """Use as a context manager: `with AdminSession(connection) as session: list_topics(session)`."""

    def __init__(self, connection: Connection) -> None:
        """Raises InvalidOption when the client library refuses an option; connects only when first asked."""
        self.connection = connection
        self._last_trouble = ""
        config: dict[str, Any] = connection.config()
        config["error_cb"] = self._on_error
        try:
            self.admin = AdminClient(config)
        except KafkaException as error:
            raise InvalidOption(error.args[0].str()) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.__exit__(None, None, None)

    def ask(self, start: Callable[[AdminClient, float], Future[Any]], *, subject: str = "") -> Any:
        """The result of one admin call. `start(admin, timeout_s)` begins it and returns its future."""
        deadline = time.monotonic() + self.connection.timeout_s
        while True:
            left_s = max(deadline - time.monotonic(), 0.1)
            error = None
            try:
                return start(self.admin, left_s).result(left_s + 1)
            except KafkaException as failure:
                error = failure.args[0]
            except FutureTimeoutError:
                raise BrokerTimedOut(self.connection.bootstrap, subject or "an admin request") from None
            except (ValueError, TypeError) as refusal:
                raise InvalidOption(str(refusal)) from None
            if error.code() not in _PASSING or time.monotonic() + _RETRY_PAUSE_S > deadline:
                raise self.translated(error, subject)
            time.sleep(_RETRY_PAUSE_S)

    def ask_each(
        self, start: Callable[[AdminClient, float], Mapping[Any, Future[Any]]], *, subject: str = ""
    ) -> dict[Any, Any]:
        """The results of one call that answers for several things; the first failure is raised."""
        results, failures = self.ask_all(start)
        for key, error in failures.items():
            raise self.translated(error, subject or str(key))
        return results

    def ask_all(
        self, start: Callable[[AdminClient, float], Mapping[Any, Future[Any]]], *, is_question: bool = False
    ) -> tuple[dict[Any, Any], dict[Any, KafkaError]]:
        """(results, failures) of one call that answers for several things, after retrying what may pass.

        A question is asked again as long as one answer is missing; a change only when none of it was made.
        """
        deadline = time.monotonic() + self.connection.timeout_s
        while True:
            left_s = max(deadline - time.monotonic(), 0.1)
            results, failures = self._collect(start, left_s)
            passing = any(error.code() in _PASSING for error in failures.values())
            if not passing or (results and not is_question) or time.monotonic() + _RETRY_PAUSE_S > deadline:
                return results, failures
            time.sleep(_RETRY_PAUSE_S)

    def _collect(
        self, start: Callable[[AdminClient, float], Mapping[Any, Future[Any]]], left_s: float
    ) -> tuple[dict[Any, Any], dict[Any, KafkaError]]:
        results: dict[Any, Any] = {}
        failures: dict[Any, KafkaError] = {}
        try:
            futures = start(self.admin, left_s)
        except (ValueError, TypeError) as refusal:
            raise InvalidOption(str(refusal)) from None
        except KafkaException as failure:
            raise self.translated(failure.args[0]) from None
        for key, future in futures.items():
            try:
                results[key] = future.result(left_s + 1)
            except KafkaException as failure:
                failures[key] = failure.args[0]
            except FutureTimeoutError:
                raise BrokerTimedOut(self.connection.bootstrap, "an admin request") from None
        return results, failures

    def metadata(self, topic: str | None = None) -> Any:
        """The cluster's metadata, of all topics or of one. Raises BrokerUnreachable."""
        try:
            if topic is None:
                return self.admin.list_topics(timeout=self.connection.timeout_s)
            return self.admin.list_topics(topic, timeout=self.connection.timeout_s)
        except KafkaException as failure:
            raise self.translated(failure.args[0]) from None

    def translated(self, error: KafkaError, subject: str = "") -> MillstreamError:
        """Our error for the library's; when it says only that it could not connect, with the reason why."""
        if error.code() in _NO_CONNECTION:
            self.admin.poll(0)  # brings the reasons
            if self._last_trouble:
                return BrokerUnreachable(self.connection.bootstrap, self._last_trouble)
        return from_kafka_error(error, bootstrap=self.connection.bootstrap, subject=subject)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last_trouble = error.str()
