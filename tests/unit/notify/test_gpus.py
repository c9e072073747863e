"""Names of GPUs in a sentence: a machine with eight of them is read on a phone too."""

import pytest

from costguard.notify.compose import compose
from costguard.notify.words import gpus


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        ([], ""),
        (["GPU 0"], "GPU 0"),
        (["GPU 0 (H100)"], "GPU 0 (H100)"),
        (["GPU 1", "GPU 0"], "GPUs 0 and 1"),
        ([f"GPU {n} (H100)" for n in range(8)], "GPUs 0 to 7 (H100)"),
        ([f"GPU {n} (H100)" for n in (0, 1, 2, 5, 7)], "GPUs 0 to 2, 5 and 7 (H100)"),
        (["GPU 0 (A)", "GPU 1 (B)", "GPU 2 (A)"], "GPUs 0 and 2 (A) and GPU 1 (B)"),
        (["0000:01:00.0", "GPU 3 (A)"], "GPU 3 (A) and 0000:01:00.0"),
    ],
)
def test_gpus_of_one_model_stand_together(names: list[str], shown: str) -> None:
    """Numbers in a row are a range; a name that is none stands for itself."""
    assert gpus(names) == shown


def test_readings_that_are_alike_stand_together_and_others_do_not() -> None:
    """Each value once; unknown is no number."""
    rows = [*[[f"GPU {n} (H100)", 0.0, "quiet"] for n in range(7)], ["GPU 7 (H100)", None, "lost"]]
    body = compose("warning", {"readings": rows}).body
    assert "Last readings: GPUs 0 to 6 (H100) 0 % (quiet) and GPU 7 (H100) unknown (lost)." in body
