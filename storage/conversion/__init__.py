"""Records between message formats and codecs."""
