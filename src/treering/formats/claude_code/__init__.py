"""The files of Claude Code; `format` says how they are recognized, read and, where that is possible, written."""
