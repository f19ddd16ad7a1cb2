"""SmolLM2's answer, compiled or eager: tokens.py COUNT compiled|eager"""

import sys

from anabranch import llm

model, tokenizer = llm.load("SmolLM2")
prompt = tokenizer.apply_chat_template(
    [{"role": "user", "content": "Name three rivers of Europe."}],
    add_generation_prompt=True,
    return_tensors="pt",
    return_dict=True,
)
if sys.argv[2] == "compiled":
    model = llm.compile(model, max_length=128)
tokens = model.generate(**prompt, max_new_tokens=int(sys.argv[1]), do_sample=False)
print(tokens[0, prompt["input_ids"].shape[1] :].tolist())
