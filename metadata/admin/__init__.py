"""Administration of topics over the store: what needs no controller. Rules are pure; `topic_admin` writes."""
