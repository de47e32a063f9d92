"""How each cost grows with the size of what it works on: sessions, entries, followers, and bytes of a line."""
