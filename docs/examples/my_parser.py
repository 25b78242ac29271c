"""A tool parser plugin for vLLM: calls are written as ``[[name {"arguments": "as JSON"}]]``."""

import json
import re
from collections.abc import Sequence

from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.engine.protocol import (
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    ToolCall,
)
from vllm.logger import init_logger
from vllm.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

logger = init_logger(__name__)
CALL = re.compile(r"\[\[(\w+) (\{.*?\})\]\]", re.DOTALL)


@ToolParserManager.register_module(["my_parser", "brackets"])
class MyToolParser(ToolParser):
    def __init__(self, tokenizer, tools=None):
        super().__init__(tokenizer, tools)
        self.sent = 0  # characters that were dealt with

    def adjust_request(self, request: ChatCompletionRequest) -> ChatCompletionRequest:
        request.skip_special_tokens = False
        return request

    def extract_tool_calls(
        self, model_output: str, request: ChatCompletionRequest
    ) -> ExtractedToolCallInformation:
        calls = []
        for name, arguments in CALL.findall(model_output):
            json.loads(arguments)
            calls.append(ToolCall(type="function", function=FunctionCall(name=name, arguments=arguments)))
        content = CALL.sub("", model_output).strip()
        return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=content or None)

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: ChatCompletionRequest,
    ) -> DeltaMessage | None:
        text = current_text[self.sent :]
        start = text.find("[")
        if start < 0:
            self.sent = len(current_text)
            return DeltaMessage(content=text) if text else None
        if start > 0:
            self.sent += start
            return DeltaMessage(content=text[:start])
        found = CALL.match(text)
        if found is None:
            return None
        self.sent += found.end()
        self.current_tool_id += 1
        name, arguments = found.groups()
        self.prev_tool_call_arr.append({"name": name, "arguments": json.loads(arguments)})
        self.streamed_args_for_tool.append(arguments)
        logger.debug("call %d: %s", self.current_tool_id, name)
        call = DeltaToolCall(
            index=self.current_tool_id,
            id=f"call_{self.current_tool_id}",
            type="function",
            function=DeltaFunctionCall(name=name, arguments=arguments).model_dump(exclude_none=True),
        )
        return DeltaMessage(tool_calls=[call])
