"""Translates a conversation to tokens and back.

transformers does it for a model that was loaded. `SavedTokenizer` does the same from a
file that the `tokenizers` package reads, without PyTorch and transformers."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

Message = dict[str, str]


class ChatTokenizer(Protocol):
    # Tokens that end an answer.
    ends: Collection[int]

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        """The conversation up to the beginning of the next answer."""
        ...

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        ...


class LoadedTokenizer:
    """A tokenizer of transformers."""

    def __init__(self, tokenizer: Any, ends: Collection[int]) -> None:
        self._tokenizer, self.ends = tokenizer, ends

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        if self._tokenizer.chat_template is None:
            return self._tokenizer(_joined(messages))["input_ids"]
        return self._tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=True
        )["input_ids"]

    def text(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(tokens, skip_special_tokens=True)

    def saved(self) -> str | None:
        """The text of a SavedTokenizer that does the same. None: there is none, since
        the tokenizer or its template needs transformers."""
        backend = getattr(self._tokenizer, "backend_tokenizer", None)
        if backend is None:
            return None
        text = json.dumps(
            {
                "tokenizer": backend.to_str(),
                "template": self._tokenizer.chat_template,
                "names": dict(self._tokenizer.special_tokens_map),
                "ends": sorted(self.ends),
            }
        )
        return text if _agree(self, text) else None


class SavedTokenizer:
    """Gives the tokens and texts of the tokenizer of transformers whose text it reads."""

    def __init__(self, text: str) -> None:
        from tokenizers import Tokenizer

        saved = json.loads(text)
        self.ends: Collection[int] = frozenset(saved["ends"])
        self._tokenizer = Tokenizer.from_str(saved["tokenizer"])
        self._names: Mapping[str, str] = saved["names"]
        source = saved["template"]
        self._template = None if source is None else _compiled(source)

    def tokens(self, messages: Sequence[Message]) -> list[int]:
        if self._template is None:
            return self._tokenizer.encode(_joined(messages)).ids
        text = self._template.render(
            messages=list(messages), add_generation_prompt=True, **self._names
        )
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def text(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)


def _joined(messages: Sequence[Message]) -> str:
    """The conversation for a model without a template."""
    return "\n".join(message["content"] for message in messages)


def _compiled(source: str) -> Any:
    """The template, with the functions that templates of chats use."""
    import jinja2
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def as_json(value: Any, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=False, **options)

    def now(form: str) -> str:
        return datetime.datetime.now().strftime(form)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols]
    )
    environment.filters["tojson"] = as_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": now}
    return environment.from_string(source)


def _agree(loaded: LoadedTokenizer, text: str) -> bool:
    """Whether the saved tokenizer gives the same tokens and the same text."""
    first: list[Message] = [{"role": "user", "content": "Ein Fluß, two\n\n rivers? 3"}]
    second: list[Message] = [
        *first,
        {"role": "assistant", "content": "Yes ; it 's <b>so</b>."},
        {"role": "user", "content": "  "},
    ]
    try:
        saved = SavedTokenizer(text)
        for messages in (first, second):
            tokens = loaded.tokens(messages)
            if saved.tokens(messages) != tokens:
                return False
            if saved.text(tokens) != loaded.text(tokens):
                return False
    except Exception:  # noqa: BLE001 - a template may fail in any way here
        return False
    return True
