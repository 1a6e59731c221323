"""Records of topics: looking at them, searching and following them, and writing one.

conditions, json_paths, patterns    what a search looks for
prefilter, scan                     finding it in batches without an object for each record
shown, internal_topics, decoding    how keys and values are shown
selection, cursors, progress        which records of which partitions, how far reading has come, going on
reading, searches, follow, browse   the shells that read from the cluster
"""
