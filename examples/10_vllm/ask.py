"""Asks a running server and prints the answer as it comes.

ask.py What is a river?
ask.py --server http://localhost:8001 What is a river?   another server
"""

import argparse

from openai import OpenAI


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--server", default="http://localhost:8000")
    parser.add_argument("question", nargs="+")
    given = parser.parse_args()
    client = OpenAI(base_url=f"{given.server}/v1", api_key="none")
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": " ".join(given.question)}],
        max_tokens=64,
        temperature=0,
        stream=True,
    )
    for part in answer:
        print(part.choices[0].delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
