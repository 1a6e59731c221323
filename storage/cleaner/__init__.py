"""The log cleaner: compaction of logs, beside everything else."""
