"""The files of Gemini CLI; `format` says how they are recognized, read and, where that is possible, written."""
