"""One producer for each sales channel, on a thread of its own.

Why: events come from several places at once, at a steady pace, and don't wait for a node that is away.
Invariants: idempotent, so a batch that is sent again after a lost answer is stored once; every event ends up
acknowledged or refused.
"""

import threading
import time
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer
from events import Event
from ledger import Sent

_GIVE_UP_MS = 180_000
_COMPRESSION = {"web": "zstd", "app": "lz4", "till": "none"}


class ChannelProducer(threading.Thread):
    def __init__(
        self, channel: str, events: Sequence[Event], *, bootstrap: str, rate: float, sent: Sent
    ) -> None:
        super().__init__(name=f"producer-{channel}", daemon=True)
        self.stopping = threading.Event()
        self._events = events
        self._rate = rate
        self._sent = sent
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": f"shop-{channel}",
                "enable.idempotence": True,
                "compression.type": _COMPRESSION.get(channel, "none"),
                "message.timeout.ms": _GIVE_UP_MS,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        began = time.monotonic()
        for position, event in enumerate(self._events):
            if self.stopping.is_set():
                self._producer.purge()
                break
            self._offer(event)
            ahead = began + position / self._rate - time.monotonic()
            self._producer.poll(max(ahead, 0.0))
        self._producer.flush(_GIVE_UP_MS / 1000)

    def _offer(self, event: Event) -> None:
        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._sent.acknowledged[event.topic].append(event)
            else:
                self._sent.refused.append((event, str(error)))

        while not self.stopping.is_set():
            try:
                self._producer.produce(event.topic, event.value, event.key, on_delivery=delivered)
            except BufferError:  # the queue is full: wait for the node to take some
                self._producer.poll(0.1)
            else:
                self._sent.offered[event.topic] += 1
                return
