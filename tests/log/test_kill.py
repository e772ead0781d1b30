"""kill -9 at any moment: what was acknowledged is there, and what is there is right."""

import random
import signal
import subprocess
import sys
from pathlib import Path

from millstream.log.datadir import DataDirectory
from millstream.model.clock import SystemClock
from tests.log.appender import PARTITIONS, open_logs, value_at
from tests.log.box import read_values

ROOT = Path(__file__).parents[2]
ROUNDS = 6


def test_everything_acknowledged_survives_a_series_of_kills(tmp_path):
    randomness = random.Random(5)
    acknowledged = [0] * PARTITIONS

    for _ in range(ROUNDS):
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.log.appender", tmp_path],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        lines = [child.stdout.readline() for _ in range(randomness.randrange(10, 400))]
        child.send_signal(signal.SIGKILL)
        lines += child.stdout.readlines()
        child.wait()
        for partition, high_watermark in (map(int, line.split()) for line in lines if line.endswith("\n")):
            assert high_watermark >= acknowledged[partition]
            acknowledged[partition] = high_watermark

        directory = DataDirectory.open(tmp_path)
        for number, log in enumerate(open_logs(directory, SystemClock())):
            assert log.high_watermark >= acknowledged[number]
            assert read_values(log) == [value_at(number, offset) for offset in range(log.end_offset)]
        directory.close()
