"""Settings shared by all tests: how hard hypothesis looks.

The default profile repeats exactly, so a failing run can be run again anywhere. ``UNSPOOL_EXPLORE=20`` draws
twenty times as many examples, new ones on each run, to look for what the fixed examples miss.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

EXPLORE = int(os.environ.get("UNSPOOL_EXPLORE", "0"))
"""How many times the usual number of examples to draw; 0 draws the usual ones, the same on each run."""

settings.register_profile(
    "ci",
    max_examples=100 * max(EXPLORE, 1),
    deadline=None,
    derandomize=not EXPLORE,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("ci")
