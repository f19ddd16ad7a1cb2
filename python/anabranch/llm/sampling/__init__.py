"""Draws tokens in a compiled graph, as transformers and torch.multinomial do.

Start with `token_draws`.

token_draws       draws the tokens of a call of generate() or of a request
sampling_step     the graph that draws a token
warpers           reads the settings of that graph from transformers' processors
draws             the random numbers of torch.multinomial
endings           which token completes an answer
short_processors  processors of logits that read the vocabulary few times
calling_thread    keeps PyTorch's operators between two steps in the calling thread
"""
