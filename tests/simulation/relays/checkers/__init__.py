"""What the relay has promised of each record, judged by what stands in the logs at the end. Pure."""
