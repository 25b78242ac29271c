"""Public reports about schemas and reasoning budgets, by number; those about parsing are in tests/cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_LINES = (Path(__file__).parent / "bugs.jsonl").read_text("utf-8").splitlines()
BUGS: dict[str, Any] = {case["id"]: case for case in map(json.loads, _LINES)}
