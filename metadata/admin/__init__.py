"""Administration of topics in the store, without the controller. Rules are pure; `topic_admin` writes."""
