"""The commands of the command line, one module each; `command_list` names them, and imports each at its first use."""
