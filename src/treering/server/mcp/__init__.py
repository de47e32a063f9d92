"""What the Model Context Protocol needs of a server: who its clients are, and what each may reach."""
