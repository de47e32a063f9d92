"""The files of nanocoder; `format` says how they are recognized, read and, where that is possible, written."""
