"""What the store keeps for a catalog: the rows of the listing, and the index of a search."""
