"""Records of topics: looking at them, searching and following them, and writing one.

conditions, json_paths, patterns    what a search looks for
prefilter, scan                     finding it in batches without an object for each record
shown, internal_topics, decoding    how keys and values are shown
selection, cursors, progress        which records of which partitions, how far reading has come, going on
reading, matching                   batches of partitions from the cluster, and the records in them that were asked for
searches, follow, browse, one_record, downloads, writing     what a request gets
"""
