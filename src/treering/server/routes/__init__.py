"""The routes: one module for each part of the interface, and the table of all of them."""
