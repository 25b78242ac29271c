"""Whether a chat template and a format agree, found by round trips through both."""

from unspool.lint.check import check
from unspool.lint.report import Difference, Report, Result

__all__ = ["Difference", "Report", "Result", "check"]
