"""A reasoning parser plugin for vLLM: thoughts stand between ``<thought>`` and ``</thought>``."""

from collections.abc import Sequence

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.engine.protocol import DeltaMessage
from vllm.reasoning import ReasoningParser, ReasoningParserManager

OPEN, CLOSE = "<thought>", "</thought>"


@ReasoningParserManager.register_module("my_reasoning")
class MyReasoningParser(ReasoningParser):
    def __init__(self, tokenizer, *args, **kwargs):
        super().__init__(tokenizer, *args, **kwargs)
        self.close_id = self.vocab.get(CLOSE)
        if self.close_id is None:
            raise RuntimeError(f"the tokenizer has no {CLOSE}")

    def is_reasoning_end(self, input_ids: Sequence[int]) -> bool:
        return self.close_id in input_ids

    def extract_content_ids(self, input_ids: list[int]) -> list[int]:
        return input_ids[input_ids.index(self.close_id) + 1 :] if self.close_id in input_ids else []

    def extract_reasoning(
        self, model_output: str, request: ChatCompletionRequest
    ) -> tuple[str | None, str | None]:
        thought, close, content = model_output.partition(CLOSE)
        return thought.removeprefix(OPEN), (content or None) if close else None

    def extract_reasoning_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
    ) -> DeltaMessage | None:
        thought, close, content = delta_text.partition(CLOSE)
        if close:
            return DeltaMessage(reasoning=thought or None, content=content or None)
        # The opener may come in several pieces.
        if OPEN.startswith(current_text):
            return None
        begin = len(OPEN) if current_text.startswith(OPEN) else 0
        return DeltaMessage(reasoning=current_text[max(begin, len(previous_text)) :])
