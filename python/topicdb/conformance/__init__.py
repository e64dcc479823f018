"""Checks whether an engine keeps the promises of ``topicdb.engine.Engine``.

docs/internals/engines.md lists them. It runs on its own, against any engine, and needs nothing but
this package:

    python -m topicdb.conformance my_package.my_module:open_engine

With pytest each promise is a test:

>>> @pytest.mark.parametrize("promise", topicdb.conformance.promises(), ids=str)  # doctest: +SKIP
... def test_my_engine(promise, tmp_path):
...     try:
...         promise.check(Subject("mine", open_engine), tmp_path)
...     except NotCheckedError as reason:
...         pytest.skip(str(reason))
"""

from topicdb.conformance.expect import BrokenPromiseError, NotCheckedError
from topicdb.conformance.promise import Promise
from topicdb.conformance.promises import promises
from topicdb.conformance.run import Outcome, run
from topicdb.conformance.subject import Subject

__all__ = [
    "BrokenPromiseError",
    "NotCheckedError",
    "Outcome",
    "Promise",
    "Subject",
    "promises",
    "run",
]
