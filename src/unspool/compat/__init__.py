"""The interfaces that engines' parsers are written against, both ways round.

Every format as a ``ToolParser`` and a ``ReasoningParser``, by name from the managers, for code that expects those
of vLLM or vllm-mlx::

    from unspool.compat import ToolParserManager
    parser = ToolParserManager.get_tool_parser("hermes")(tokenizer, tools)

and parsers that were written for those engines, behind the interface of :class:`unspool.Parser`
(:class:`~unspool.compat.bridge.PluginParser`), from plugin files that need not know it (:func:`load_plugin`).
Only the standard library is imported.
"""

from typing import TYPE_CHECKING

from unspool.compat.interface import ReasoningParser, ToolParser
from unspool.compat.managers import (
    ReasoningParserManager,
    ToolParserManager,
    get_parser_stop_tokens,
    get_reasoning_parser,
    get_tool_parser,
)
from unspool.compat.records import (
    ChatCompletionNamedFunction,
    ChatCompletionNamedToolChoiceParam,
    ChatCompletionRequest,
    ChatCompletionToolsParam,
    DeltaFunctionCall,
    DeltaMessage,
    DeltaToolCall,
    ExtractedToolCallInformation,
    FunctionCall,
    FunctionDefinition,
    ResponsesRequest,
    ToolCall,
)
from unspool.lazy import attributes

if TYPE_CHECKING:
    from unspool.compat.bridge import PluginParser
    from unspool.compat.plugins import PluginError, load_plugin
    from unspool.compat.thinking import BaseThinkingReasoningParser

__all__ = [
    "BaseThinkingReasoningParser",
    "ChatCompletionNamedFunction",
    "ChatCompletionNamedToolChoiceParam",
    "ChatCompletionRequest",
    "ChatCompletionToolsParam",
    "DeltaFunctionCall",
    "DeltaMessage",
    "DeltaToolCall",
    "ExtractedToolCallInformation",
    "FunctionCall",
    "FunctionDefinition",
    "PluginError",
    "PluginParser",
    "ReasoningParser",
    "ReasoningParserManager",
    "ResponsesRequest",
    "ToolCall",
    "ToolParser",
    "ToolParserManager",
    "get_parser_stop_tokens",
    "get_reasoning_parser",
    "get_tool_parser",
    "load_plugin",
]

# Running plugins takes more than offering formats does.
__getattr__ = attributes(
    __name__,
    {
        "bridge": ("PluginParser",),
        "plugins": ("PluginError", "load_plugin"),
        "thinking": ("BaseThinkingReasoningParser",),
    },
)
