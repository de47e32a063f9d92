"""Branch, label and compact one conversation: `python examples/quickstart.py [DIRECTORY]`."""

from __future__ import annotations

import sys
import tempfile

import anyio

from treering import SessionHost, plain_text


async def main(root: str) -> None:
    """Run a short conversation under `root`, and print what a model would see of it."""
    async with SessionHost(root) as host:
        session = await host.continue_recent()
        greeting = await session.append_message("user", "Hello, agent!")
        await session.append_message("assistant", "Hello! How can I help?")

        await session.branch(greeting)  # go back to the greeting; the answer stays on its branch
        joke = await session.append_message("user", "Actually, tell me a joke.")
        await session.set_label(greeting, "first-greeting")
        await session.append_compaction("The user greeted and then asked for a joke.", joke, tokens_before=1500)

        for message in (await session.context()).messages:
            print(f"{message.role}: {plain_text(message.content)}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(main, sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            anyio.run(main, folder)
