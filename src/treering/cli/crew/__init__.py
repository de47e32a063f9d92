"""The agents of `treering demo --serve`: prompts, a model and tools that follow a script, without a network."""
