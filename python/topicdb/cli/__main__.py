"""``python -m topicdb.cli``: the same as the ``topicdb`` command."""

import sys

from topicdb.cli import main

sys.exit(main())
