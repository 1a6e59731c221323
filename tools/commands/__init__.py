"""One module for each command; `command` in it is what `barnabas NAME` runs."""
