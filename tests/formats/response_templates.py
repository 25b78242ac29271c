"""Response templates of every style that checkpoints have, written for these tests, and outputs in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


def _tool(name: str, **properties: Any) -> Json:
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    _tool("get_weather", city={"type": "string"}, days={"type": "integer"}, unit={"type": ["string", "null"]}),
    _tool("get_time"),
    _tool("save", text={"type": "string"}, note={}, data={"type": "object"}, sure={"type": "boolean"}),
]


@dataclass(frozen=True)
class Style:
    """A template and how a model that it was made for writes. ``call`` writes one call, ``calls`` several."""

    template: Json
    prompt: str
    call: Callable[[str, Json], str] | None = None
    reasoning: Callable[[str], str] | None = None
    content: Callable[[str], str] = lambda text: text
    calls: Callable[[list[tuple[str, Json]]], str] | None = None
    end: str = ""

    def write(self, reasoning: str | None, content: str | None, calls: list[tuple[str, Json]]) -> str:
        """An output as the model would have written it."""
        text = "" if reasoning is None or self.reasoning is None else self.reasoning(reasoning)
        text += "" if content is None else self.content(content)
        if calls and self.calls is not None:
            text += self.calls(calls)
        elif calls and self.call is not None:
            text += "".join(self.call(name, arguments) for name, arguments in calls)
        return text + self.end


def _function(name: Any, arguments: Any) -> Json:
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


def _parameters(name: str, arguments: Json) -> str:
    values = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in arguments.items()
    }
    lines = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in values.items())
    return f"<tool_call>\n<function={name}>\n{lines}</function>\n</tool_call>\n"


def _arg_pairs(name: str, arguments: Json) -> str:
    values = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in arguments.items()
    }
    pairs = "".join(f"<arg_key>{k}</arg_key>\n<arg_value>{v}</arg_value>\n" for k, v in values.items())
    return f"<tool_call>{name}\n{pairs}</tool_call>"


def _bare(value: Any, quote: str) -> str:
    if isinstance(value, str):
        return quote + value + quote
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_bare(item, quote)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_bare(item, quote) for item in value) + "]"
    return json.dumps(value)


def _guillemets(value: Any) -> str:
    if isinstance(value, str):
        return f"«{value}»"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{_guillemets(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_guillemets, value)) + "]"
    return json.dumps(value)


def _python_value(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)}: {_python_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_python_value, value)) + "]"
    return repr(value)


def _python_calls(calls: list[tuple[str, Json]]) -> str:
    each = (f"{name}({', '.join(f'{k}={_python_value(v)}' for k, v in args.items())})" for name, args in calls)
    return f"<|tool_call_start|>[{', '.join(each)}]<|tool_call_end|>"


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_QUOTE = '<|"|>'
_IM_END = {"close_pattern": r"<\|im_end\|>\s*"}
_XML_FUNCTION = {
    "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
    "close_pattern": r"</function>\s*</tool_call>\s*",
    "repeats": True,
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"},
    "transform": _function("{name}", "{content}"),
}

STYLES: dict[str, Style] = {
    "hermes": Style(
        {
            "version": 1,
            "defaults": {"role": "assistant"},
            "start_anchor": "<|im_start|>assistant\n",
            "fields": {
                "thinking": {"open": "<think>", "close_pattern": r"</think>\s*"},
                "tool_calls": {
                    "open": "<tool_call>",
                    "close_pattern": r"</tool_call>\s*",
                    "repeats": True,
                    "content": "json",
                    "transform": {"type": "function", "function": "{content}"},
                },
                "content": _IM_END,
            },
        },
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n",
        lambda name, arguments: f"\n<tool_call>\n{_dumps({'name': name, 'arguments': arguments})}\n</tool_call>",
        lambda text: f"<think>\n{text}\n</think>\n\n",
        end="<|im_end|>",
    ),
    "prefilled": Style(
        {
            "start_anchor": "<|im_start|>assistant\n<think>\n",
            "fields": {
                "reasoning_content": {"open_pattern": r"(?=[\s\S]*?</think>)", "close_pattern": r"</think>\s*"},
                "tool_calls": _XML_FUNCTION,
                "content": _IM_END,
            },
        },
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n",
        _parameters,
        lambda text: f"{text}\n</think>\n\n",
    ),
    "either": Style(
        {
            "start_anchor_pattern": r"<\|im_start\|>assistant\n<think>(?:\n|</think>)?",
            "fields": {
                "thinking": {"open_pattern": r"(?=.*?</think>)", "close": "</think>"},
                "tool_calls": _XML_FUNCTION,
                "content": {"close": ["<|im_end|>", "<|endoftext|>"]},
            },
        },
        "<|im_start|>assistant\n<think>\n",
        _parameters,
        lambda text: f"{text}\n</think>",
        end="<|im_end|>",
    ),
    "glm": Style(
        {
            "start_anchor": "<|assistant|>",
            "fields": {
                "thinking": {"open": "<think>", "close_pattern": r"</think>\s*"},
                "tool_calls": {
                    "open_pattern": r"<tool_call>(?P<name>\S+)\n?",
                    "close_pattern": r"</tool_call>\s*",
                    "repeats": True,
                    "content": "xml-inline",
                    "content_args": {
                        "tag_pattern": (
                            r"<arg_key>(?P<key>[^<]+)</arg_key>\s*\n<arg_value>(?P<value>.*?)</arg_value>"
                        ),
                        "value_parser": {"name": "text", "args": {"strip": False}},
                    },
                    "transform": _function("{name}", "{content}"),
                },
                "content": {"close_pattern": r"<\|user\|>\s*|$"},
            },
        },
        "<|user|>\nhi<|assistant|>",
        _arg_pairs,
        lambda text: f"\n<think>{text}</think>\n",
    ),
    "gemma": Style(
        {
            "start_anchor": ["<|turn>model\n", "<tool_response|>"],
            "fields": {
                "reasoning_content": {"open": "<|channel>thought\n", "close": "<channel|>"},
                "tool_calls": {
                    "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
                    "close": "<tool_call|>",
                    "repeats": True,
                    "content": "json",
                    "content_args": {"unquoted_keys": True, "string_delims": [[_QUOTE, _QUOTE]]},
                    "transform": _function("{name}", "{content}"),
                },
                "content": {"close": ["<turn|>", "<|tool_response>", "<eos>"]},
            },
        },
        "<|turn>user\nhi<turn|>\n<|turn>model\n",
        lambda name, arguments: f"<|tool_call>call:{name}{_bare(arguments, _QUOTE)}<tool_call|>",
        lambda text: f"<|channel>thought\n{text}\n<channel|>",
        end="<turn|>",
    ),
    "harmony": Style(
        {
            "start_anchor": "<|start|>assistant",
            "fields": {
                "thinking": {"open": "<|channel|>analysis<|message|>", "close_pattern": r"<\|end\|>\s*"},
                "content": {"open": "<|channel|>final<|message|>", "close_pattern": r"<\|(?:return|end)\|>\s*"},
                "tool_calls": {
                    "open_pattern": r"to=functions\.(?P<name>\S+?)<\|channel\|>commentary\s+json<\|message\|>",
                    "close_pattern": r"<\|call\|>\s*",
                    "repeats": True,
                    "content": "json",
                    "transform": _function("{name}", "{content}"),
                },
            },
        },
        "<|start|>user<|message|>hi<|end|><|start|>assistant",
        lambda name, arguments: (
            f"<|start|>assistant to=functions.{name}<|channel|>commentary json<|message|>"
            f"{_dumps(arguments)}<|call|>"
        ),
        lambda text: f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant",
        lambda text: f"<|channel|>final<|message|>{text}<|end|>",
    ),
    "llama": Style(
        {
            "start_anchor": "<|start_header_id|>assistant<|end_header_id|>\n\n",
            "fields": {
                "tool_calls": {
                    "open_pattern": r'\{"name":\s*"(?P<name>[^"]+)",\s*"parameters":\s*',
                    "close_pattern": r"\}<\|eot_id\|>\s*",
                    "repeats": True,
                    "content": "json",
                    "transform": _function("{name}", "{content}"),
                },
                "content": {"close_pattern": r"<\|eot_id\|>\s*"},
            },
        },
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        lambda name, arguments: f'{{"name": "{name}", "parameters": {_dumps(arguments)}}}<|eot_id|>',
    ),
    "python": Style(
        {
            "start_anchor": "<|im_start|>assistant\n",
            "fields": {
                "thinking": {"open": "<think>", "close_pattern": r"</think>\s*"},
                "tool_calls": {
                    "open": "<|tool_call_start|>",
                    "close_pattern": r"<\|tool_call_end\|>\s*",
                    "content": "python-call-list",
                    "transform_each": True,
                    "transform": _function("{name}", "{arguments}"),
                },
                "content": _IM_END,
            },
        },
        "<|im_start|>assistant\n",
        reasoning=lambda text: f"<think>{text}</think>\n",
        calls=_python_calls,
        end="<|im_end|>",
    ),
    "bare_python": Style(
        {
            "start_anchor": "<|im_start|>assistant\n",
            "fields": {
                "tool_calls": {"open_pattern": r"(?=\[\w+\()", "close": "<|end|>", "content": "python-call-list"},
                "content": {"close": "<|end|>"},
            },
        },
        "<|im_start|>assistant\n",
        calls=lambda calls: _python_calls(calls).removeprefix("<|tool_call_start|>")[:-17] + "<|end|>",
    ),
    "dialect": Style(
        {
            "start_anchor": "<bot>",
            "fields": {
                "thinking": {"open": "(((", "close": ")))"},
                "tool_calls": {
                    "open_pattern": r"@@(?P<name>\w+) ",
                    "close": "@@",
                    "repeats": True,
                    "content": "json",
                    "content_args": {"unquoted_keys": True, "string_delims": [["«", "»"], ["‹", "›"]]},
                    "transform": _function("{name}", "{content}"),
                },
                "content": {},
            },
        },
        "<user>hi<bot>",
        lambda name, arguments: f"@@{name} {_guillemets(arguments)}@@",
        lambda text: f"((({text})))",
    ),
    "lines": Style(
        {
            "start_anchor": "<bot>",
            "fields": {
                "reasoning": {"open": "[T]", "close": "[/T]"},
                "tool_calls": {
                    "open": "[CALL]\n",
                    "close_pattern": r"\[/CALL (?P<name>\w+)\]\n?",
                    "repeats": True,
                    "content": "kv-lines",
                    "content_args": {"kv_sep": " = "},
                    "transform": _function("{name}", "{content}"),
                },
                "content": {"close": "[END]"},
            },
        },
        "<user>hi<bot>",
        lambda name, arguments: (
            "[CALL]\n"
            + "".join(f"{k} = {v if isinstance(v, str) else _dumps(v)}\n" for k, v in arguments.items())
            + f"[/CALL {name}]\n"
        ),
        lambda text: f"[T]{text}[/T]",
        end="[END]",
    ),
    "listed": Style(
        {
            "start_anchor": "<bot>",
            "fields": {
                "tool_calls": {
                    "open": "<calls>",
                    "close": "</calls>",
                    "content": "json",
                    "transform_each": True,
                    "transform": _function("{tool}", "{input}"),
                },
                "content": {"content_args": {"strip": False}},
            },
        },
        "<bot>",
        calls=lambda calls: "<calls>" + _dumps([{"tool": n, "input": a} for n, a in calls]) + "</calls>",
    ),
    "joined": Style(
        {
            "start_anchor": "<bot>",
            "fields": {
                "thinking": {"open": "<t>", "close": ["</t>", "</t>\n"], "repeats": True, "join": "\n\n"},
                "tool_calls": {
                    "open": "<call>",
                    "close": "</call>",
                    "repeats": True,
                    "content": "json",
                    "content_args": {"unquoted_keys": True},
                    "transform": {"function": {"name": "{content.name}", "arguments": "{content.values}"}},
                },
                "content": {"repeats": True, "join": " / "},
            },
        },
        "<bot>",
        lambda name, arguments: f"<call>{_dumps({'name': name, 'values': arguments})}</call>",
        lambda text: f"<t>{text}</t>\n",
    ),
}
