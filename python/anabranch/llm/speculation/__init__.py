"""Several tokens are guessed, and one step of the model checks them.

    known tokens ─► drafts: propose ─► check: one step of the model ─► answer: grow
         ▲               k guesses          k + 1 logits                  │ until a token
         └────────────────────────────────────────────────────────────────┘ is another

The answer takes its tokens from the model's own logits, as without guesses: a wrong guess
costs time and changes nothing. Start with `speculative_loop`.

speculative_loop  rounds of guesses and checks
speculation       what a compiled model needs for them
placed_steps      compiled steps of one row at given positions
tapped_model      a model that tells hidden states
prompt_lookup     guesses from the tokens that are there
assistant         guesses of a smaller model: one call a round
draft_loop        the loop of such a call
eagle_checkpoint  llm.eagle3: reads a head
eagle_head        the head's layer
eagle_drafts      guesses of a head: one call a round
"""
