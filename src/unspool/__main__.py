"""``python -m unspool`` is the ``unspool`` command."""

from unspool.cli.main import main

main()
