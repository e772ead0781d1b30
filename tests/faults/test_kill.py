"""kill -9 in a loop, for as long as a test run can wait; `python -m tests.faults.torture` goes on for longer."""

from tests.faults.torture import Torture

SECONDS = 15.0


def test_nothing_acknowledged_is_lost_when_the_node_is_killed_again_and_again(tmp_path):
    torture = Torture(tmp_path, seed=20)
    try:
        result = torture.round(1, SECONDS)
    finally:
        torture.node.kill()

    assert result.problems == ()
    assert result.kills >= 3
    assert result.verdict.is_valid, result.verdict.describe()
    assert result.verdict.counts["produce/ok"] > 100
