"""From rows to records: options, producing, and the transactions of a stream that is written exactly once."""
