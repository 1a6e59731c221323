"""The jobs of `barnabas.pipeline` as files for spark-submit, and `example`, which shows two of them."""
