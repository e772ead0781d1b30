"""The events of a small shop: customers, orders, payments, clicks.

Why: a demonstration needs a stream that looks like one. The same seed gives the same events on every machine.
Invariants: event numbers count from 0; a customer's events belong to one channel, so they have one order; an order
comes before its payment.
"""

import json
import random
from dataclasses import dataclass

CUSTOMERS, ORDERS, PAYMENTS, CLICKS = "shop.customers", "shop.orders", "shop.payments", "shop.clicks"
TOPICS = {CUSTOMERS: 1, ORDERS: 3, PAYMENTS: 3, CLICKS: 4}
"""Topic and number of partitions."""

CHANNELS = ("web", "app", "till")
"""Where customers come from; each channel has a producer of its own."""

CUSTOMERS_FOR_EACH_CHANNEL = 80
_CITIES = ("Aarhus", "Bilbao", "Ghent", "Kraków", "Leeds", "Porto", "Turin", "Utrecht")
_PRODUCTS = {"apron": 1_900, "bread": 420, "flour": 250, "millstone": 48_000, "sieve": 1_250, "yeast": 95}
"""Price in cents."""


@dataclass(frozen=True, slots=True)
class Event:
    number: int
    topic: str
    key: bytes
    value: bytes


def shop_events(seed: int, count: int) -> dict[str, list[Event]]:
    """`count` events in all, by channel, each channel's in the order they happen."""
    chance = random.Random(seed)
    events: dict[str, list[Event]] = {channel: [] for channel in CHANNELS}
    unpaid: list[tuple[str, str, int, int]] = []
    for number in range(count):
        kind = chance.choices((CLICKS, ORDERS, PAYMENTS, CUSTOMERS), weights=(60, 20, 15, 5))[0]
        channel = chance.choice(CHANNELS)
        customer = f"{channel}-{chance.randrange(CUSTOMERS_FOR_EACH_CHANNEL):02d}"
        if kind == PAYMENTS and unpaid:
            channel, customer, order, cents = unpaid.pop(0)
            body: dict[str, object] = {"order": order, "cents": cents}
        elif kind in (PAYMENTS, ORDERS):
            kind = ORDERS
            product = chance.choice(sorted(_PRODUCTS))
            pieces = chance.randint(1, 5)
            cents = pieces * _PRODUCTS[product]
            unpaid.append((channel, customer, number, cents))
            body = {"order": number, "product": product, "pieces": pieces, "cents": cents}
        elif kind == CUSTOMERS:
            body = {"city": chance.choice(_CITIES), "newsletter": chance.random() < 0.3}
        else:
            body = {"page": f"/{chance.choice(sorted(_PRODUCTS))}", "ms": chance.randint(200, 20_000)}
        value = json.dumps({"number": number, "customer": customer, **body}).encode()
        events[channel].append(Event(number, kind, customer.encode(), value))
    return events


def number_of(value: bytes) -> int:
    """The number of the event that was sent as `value`."""
    number = json.loads(value)["number"]
    assert isinstance(number, int)
    return number
