"""The controller: who leads what, decided once for the whole cluster over a tree store."""
