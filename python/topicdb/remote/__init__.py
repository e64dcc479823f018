"""A database in another process: ``topicdb serve`` there, ``topicdb.connect`` here.

The server is in ``server`` and what it may do for whom in ``service``, ``access`` and ``tokens``;
the client is in ``client``, and its database in ``database``. ``wire`` is what they say to each
other. Both need the extra ``topicdb[serve]``.
"""
