"""A database in another process: ``topicdb serve`` there, ``topicdb.connect`` here.

``server`` has the server: its calls, and what tokens may do. ``client`` has the database that
``topicdb.connect`` returns. ``wire`` and ``records`` say how calls and results travel between them.
Both sides need the extra ``topicdb[serve]``.
"""
