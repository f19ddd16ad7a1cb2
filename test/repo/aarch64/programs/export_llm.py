"""Exports SmolLM2, and prints a prompt's tokens: export_llm.py PACKAGE TARGET"""

import sys

from anabranch import llm

model, tokenizer = llm.load("SmolLM2")
llm.export(model, sys.argv[1], max_length=128, sizes=(1, 16), targets=[sys.argv[2]])
prompt = tokenizer.apply_chat_template(
    [{"role": "user", "content": "Name three rivers of Europe."}],
    add_generation_prompt=True,
)
print(*(prompt if isinstance(prompt, list) else prompt["input_ids"]))
