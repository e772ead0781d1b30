import pytest

from millstream.cli.topic_describe import sentences
from millstream.client.outlook import Bound, GroupRisk, Outlook


def outlook(
    *,
    rate: float = 10.0,
    lasts_s: float | None = 3_600,
    bound: Bound = "age",
    settles_at: float | None = 2**30,
    full_in_s: float | None = None,
    disk_known: bool = True,
    risks: tuple[GroupRisk, ...] = (),
) -> Outlook:
    return Outlook(
        records_per_s=rate,
        bytes_per_s=rate * 100,
        lasts_s=lasts_s,
        bound=bound,
        settles_at_bytes=settles_at,
        disk_full_in_s=full_in_s,
        disk_known=disk_known,
        risks=risks,
    )


def risk(*, lost: int = 0, time_left_s: float | None = 7_500) -> GroupRisk:
    return GroupRisk(group="billing", partition=1, lag=1_200, lost=lost, time_left_s=time_left_s)


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        (outlook(), "Rate: 10 records/s, 1000 B/s over the last 10 min."),
        (outlook(rate=0), "Rate: nothing was written in the last 10 min."),
        (outlook(), "Retention: a record stays for at least 1 h (retention.ms)."),
        (
            outlook(bound="size", lasts_s=60),
            "Retention: a record stays for at least 1 min (retention.bytes at this rate).",
        ),
        (outlook(bound="nothing", lasts_s=None), "Retention: records are kept for ever."),
        (outlook(full_in_s=7_500), "Disk: full in 2 h 5 min at this rate."),
        (outlook(), "Disk: has room; the topic settles at about 1.0 GiB."),
        (outlook(settles_at=None), "Disk: has room as long as nothing is written."),
        (outlook(disk_known=False), "Disk: sizes can't be asked of this broker."),
        (outlook(), "Groups: none is behind."),
        (
            outlook(risks=(risk(),)),
            "Groups: billing is slowest: 1 200 records behind in partition 1; "
            "it loses data in 2 h 5 min if it reads no further.",
        ),
        (
            outlook(risks=(risk(lost=5),)),
            "Groups: billing is slowest: 1 200 records behind in partition 1, 5 of them already lost to retention.",
        ),
        (
            outlook(risks=(risk(time_left_s=None),)),
            "Groups: billing is slowest: 1 200 records behind in partition 1; "
            "nothing will be lost, records are kept for ever.",
        ),
    ],
)
def test_the_outlook_is_told_in_plain_words(facts: Outlook, sentence: str) -> None:
    assert sentence in sentences(facts, elapsed_s=600)
