"""Asks a running `vllm serve` and prints the answer as it comes: ask.py QUESTION."""

import sys

from openai import OpenAI


def main() -> None:
    client = OpenAI(base_url="http://localhost:8000/v1", api_key="none")
    model = client.models.list().data[0].id
    answer = client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": " ".join(sys.argv[1:])}],
        max_tokens=64,
        temperature=0,
        stream=True,
    )
    for part in answer:
        print(part.choices[0].delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
