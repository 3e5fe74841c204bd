"""headrace inside your own trio program: no server, no process, cancelled by cancelling.

    python examples/embedded.py "Why is the sky blue?"

The first run fetches a small model. The answer is cut off after a hundred tokens.
"""

import sys

import trio

from headrace.actors.runtime import Runtime, open_runtime
from headrace.runtime.contracts import Delta, Failed, InferenceRequest, Message, Prompt, Sampling
from headrace.runtime.settings import Settings


async def answer(runtime: Runtime, question: str) -> None:
    request = InferenceRequest(
        id="example",
        model=None,
        prompt=Prompt(messages=(Message("user", question),)),
        sampling=Sampling(seed=1, temperature=0.0),
        max_tokens=100,
    )
    # The request lives as long as this block. Leave it in any way, by `break`, by an exception
    # or because somebody cancelled this task, and its row has left the batch.
    async with runtime.request(request) as generation:
        async for event in generation:
            match event:
                case Delta(text):
                    print(text, end="", flush=True)
                case Failed(error):
                    print(f"\nfailed: {error.message}")
    print()


async def main(question: str) -> None:
    async with open_runtime(Settings()) as runtime:
        await answer(runtime, question)


if __name__ == "__main__":
    trio.run(main, " ".join(sys.argv[1:]) or "Why is the sky blue?")
