"""What the page needs beyond Confluent's interfaces, under `/api/`: one module per subject."""
