"""What can be uploaded: a folder or a file of this machine, a prefix or an object of S3; and uploading it.

Imports `datamon.core`, `datamon.stores`, `datamon.content`, `datamon.lists`, `datamon.merge` and `datamon.bundles`.

    source -> plan: parts of about equal cost -> upload: content, then a file list for each part
"""
