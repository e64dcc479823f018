"""Uploads: a database copied to an object store, which Spark reads there without a server.

>>> import topicdb
>>> from topicdb.uploads import upload
>>> with topicdb.open("fleet.db") as db:                              # doctest: +SKIP
...     upload(db, "s3://plant/fleet")

Needs the extra ``topicdb[arrow]``.
"""

from topicdb.uploads.manifests import UploadInfo
from topicdb.uploads.uploading import Uploaded, download, upload, uploads

__all__ = ["UploadInfo", "Uploaded", "download", "upload", "uploads"]
