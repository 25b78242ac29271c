"""Settings shared by all tests: how hard hypothesis looks.

The usual run repeats exactly, so a failure anywhere can be run again here. ``UNSPOOL_EXPLORE=20`` draws twenty
times as many examples, new ones on each run, to look for what the usual ones miss.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings

import unspool
from unspool.formats import registry

EXPLORE = int(os.environ.get("UNSPOOL_EXPLORE", "0"))


def examples(usual: int) -> int:
    """How many examples to draw where a usual run draws this many."""
    return usual * max(EXPLORE, 1)


settings.register_profile(
    "ci",
    max_examples=examples(20),
    deadline=None,
    derandomize=not EXPLORE,
    # Explaining a failure takes longer than finding it.
    phases=set(Phase) - {Phase.explain},
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
settings.load_profile("ci")


@pytest.fixture(autouse=True, scope="session")
def data_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps what servers store out of the user's own data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNSPOOL_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture
def clean_registry() -> Iterator[None]:
    """Undoes what a test registers."""
    unspool.formats()
    known, names = dict(registry._registered), dict(registry._names)
    yield
    registry._registered.clear()
    registry._registered.update(known)
    registry._names.clear()
    registry._names.update(names)
