"""A tokenizer of transformers over a few words."""

from __future__ import annotations

import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

NAMES = ("?", "<s>", "</s>", "user", "assistant", "two", "rivers", "ß")


def words(template: str | None):
    inner = Tokenizer(models.WordLevel({n: i for i, n in enumerate(NAMES)}, "?"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=inner,
        unk_token="?",
        bos_token="<s>",
        eos_token="</s>",
        chat_template=template,
    )
