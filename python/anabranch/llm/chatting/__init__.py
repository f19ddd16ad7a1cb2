"""The engines of a chat: Anabranch's package in the cache, and those that it is compared
with.

Start with `chat_engine`.

chat_engine     the interface of an engine
chat_package    Anabranch's engine: a package that a later start finds in the cache
chat_tokenizer  translates a conversation to tokens and back
"""
