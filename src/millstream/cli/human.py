"""Numbers as people say them: sizes, durations, rates, counts.

Why: "1.4 GiB" and "2 h 5 min" are read at a glance; the exact numbers are in `-o json`.
Invariants: None is shown as `-`, in every form; two units at most.
"""

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_UNITS = (
    ("year", "years", 31_557_600),
    ("d", "d", 86_400),
    ("h", "h", 3_600),
    ("min", "min", 60),
    ("s", "s", 1),
)
_FOREVER_S = 1_000 * 31_557_600


def plain(value: object) -> str:
    return "-" if value is None else str(value)


def count(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}".replace(",", " ")


def size(value: float | None) -> str:
    if value is None:
        return "-"
    amount = float(value)
    for unit in _SIZES[:-1]:
        if abs(amount) < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} {_SIZES[-1]}"


def rate(value: float | None, what: str) -> str:
    if value is None:
        return "-"
    return f"{value:.2g} {what}/s" if 0 < value < 10 else f"{count(value)} {what}/s"


def byte_rate(value: float | None) -> str:
    return "-" if value is None else f"{size(value)}/s"


def duration(seconds: float | None) -> str:
    """`2 h 5 min`; under ten seconds to the tenth; beyond a thousand years "for ever"."""
    if seconds is None:
        return "-"
    if seconds >= _FOREVER_S:
        return "for ever"
    if seconds < 10:
        return f"{seconds:.1f} s"
    left = int(seconds)
    parts: list[str] = []
    for singular, plural, unit_s in _UNITS:
        amount, rest = divmod(left, unit_s)
        if amount or parts:
            if amount:
                parts.append(f"{amount} {singular if amount == 1 else plural}")
            left = rest
            if len(parts) == 2 or (parts and not amount):
                break
    return " ".join(parts)
