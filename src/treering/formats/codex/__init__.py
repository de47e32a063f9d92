"""The files of Codex; `format` says how they are recognized, read and, where that is possible, written."""
