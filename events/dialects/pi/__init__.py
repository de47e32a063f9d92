"""pi's dialect, and what its descendants share with it."""
