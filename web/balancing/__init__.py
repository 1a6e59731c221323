"""A balance of the cluster: plans that the page shows, and the one that is carried out."""
