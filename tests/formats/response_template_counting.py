"""Counts the characters examined for response templates: a program, as :mod:`tests.laws.counting` is."""

from __future__ import annotations

import json

from tests.laws import counting


def main() -> None:
    """Prints the counts: style, workload, and for each size the characters fed and examined."""
    counting.start()
    from tests.formats.response_templates import STYLES
    from tests.formats.test_response_template_laws import FORMATS, outside, workloads

    counts = {
        name: {
            workload: [
                counting.examine(
                    FORMATS[name],
                    [*before, *[piece] * size],
                    outside(style) if "call" in workload else style.prompt,
                )
                for size in counting.SIZES
            ]
            for workload, (*before, piece) in workloads(style).items()
        }
        for name, style in STYLES.items()
    }
    counting.check()
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
