"""A process that appends until it is killed, and says on stdout what has been acknowledged."""

import sys
from pathlib import Path
from queue import SimpleQueue

from millstream.codec.batch import read_header
from millstream.log.datadir import DataDirectory
from millstream.log.files import OpenFiles
from millstream.log.flusher import Flusher
from millstream.log.partition import PartitionLog
from millstream.model.clock import SystemClock
from millstream.model.topic_config import topic_config
from millstream.model.topics import TopicPartition
from tests.log.box import make_batch

PARTITIONS = 3
CONFIG = {"segment.bytes": "20000", "retention.ms": "-1"}


def open_logs(directory, clock):
    files = OpenFiles(16)
    return [
        PartitionLog.open(
            directory.topics / f"t-{number}",
            topic_partition=TopicPartition("t", number),
            config=topic_config(CONFIG),
            leader_epoch=directory.leader_epoch,
            files=files,
            archive_directory=directory.archive / f"t-{number}",
            clock=clock,
            was_clean=directory.was_clean,
        )
        for number in range(PARTITIONS)
    ]


def value_at(partition, offset):
    """What every record holds can be told from its place."""
    return b"%d-%d." % (partition, offset) * (1 + offset % 40)


def main():
    directory = DataDirectory.open(Path(sys.argv[1]))
    logs = open_logs(directory, SystemClock())
    calls = SimpleQueue()
    flusher = Flusher("always", 0, calls.put, lambda error: sys.exit(str(error)))
    for number, log in enumerate(logs):
        log.on_advance = lambda number=number, log=log: say(number, log.high_watermark)
        say(number, log.high_watermark)
    while True:
        for number, log in enumerate(logs):
            batch = make_batch(*(value_at(number, log.end_offset + i) for i in range(1 + log.end_offset % 3)))
            log.append(batch, read_header(batch))
            flusher.dirty(log)
        calls.get()()
        for log in logs:
            log.checkpoint() if log.end_offset % 50 == 0 else None


def say(partition, high_watermark):
    sys.stdout.write(f"{partition} {high_watermark}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
