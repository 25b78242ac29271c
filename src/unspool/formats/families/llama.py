"""Llama 3 (a bare JSON object) and Llama 4 (a Python list of calls): calls without markers.

A JSON answer and a call are the same bytes, so only an offered name makes a call.
"""

from unspool.parsing.declaration import Format, JsonCalls, PythonCalls

LLAMA3_TURNS = (
    "<|start_header_id|>assistant<|end_header_id|>\n\n",
    "<|start_header_id|>assistant<|end_header_id|>",
)
LLAMA3_STOPS = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")

FORMATS = (
    Format(
        name="llama3_json",
        summary="bare JSON object with name and parameters, after <|python_tag|> or at the start",
        aliases=(
            *("llama3", "llama", "llama4_json", "llama3_1", "llama3.2", "llama3.3"),
            *("llama_3", "llama_3.1", "llama_3.2", "llama_3.3"),
        ),
        models=("meta-llama/Llama-3.3-70B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        calls=JsonCalls(
            open=("<|python_tag|>",),
            bare=True,
            separators=";,",
            arguments_keys=("parameters", "arguments", "args", "input"),
        ),
        turns=LLAMA3_TURNS,
        stops=LLAMA3_STOPS,
        next_turns=("<|start_header_id|>",),
        between_calls="; ",
        evidence=("<|start_header_id|>", '"parameters"'),
        engine_names={
            "vllm": ("llama3_json", "llama4_json"),
            "sglang": ("llama3",),
            "vllm-mlx": ("llama",),
            "dynamo": ("llama3_json",),
            "smg": ("llama",),
            "canitoolcall": ("llama",),
        },
        source="chat template and model card of meta-llama/Llama-3.3-70B-Instruct",
        quirks=(
            "A JSON answer looks like a call, so only an object with an offered name is one; text before a bare "
            "object makes all of it content.",
            "<|python_tag|> is a special token. With it, text may come first: pass token ids or decode with "
            "skip_special_tokens=False.",
            "The template knows one call a turn; models write several with ; or , between them.",
            "Calls of built-in tools (brave_search.call(...)) and code behind <|python_tag|> are content.",
        ),
        disagreements=(
            "Text around a call: vLLM drops it, SGLang keeps what precedes the tag, unspool what follows, too.",
            "An object that is no call: vLLM streams nothing at all, not even content.",
            "A call in one chunk: vLLM loses it, SGLang gives the name alone.",
        ),
    ),
    Format(
        name="pythonic",
        summary="a Python list of keyword calls, [f(a=1), g()], at the start",
        aliases=("llama4_pythonic", "llama4", "llama_4", "toolace"),
        models=("meta-llama/Llama-4-Scout-17B-16E-Instruct", "Team-ACE/ToolACE-8B"),
        calls=PythonCalls(open=("<|python_start|>",), close=("<|python_end|>",), bare=True),
        turns=("<|header_start|>assistant<|header_end|>\n\n", "<|header_start|>assistant<|header_end|>"),
        stops=("<|eot|>", "<|eom|>", "<|eot_id|>", "<|eom_id|>"),
        next_turns=("<|header_start|>", "<|start_header_id|>"),
        between_calls=", ",
        evidence=("<|header_start|>",),
        engine_names={
            "vllm": ("pythonic", "llama4_pythonic"),
            "sglang": ("pythonic",),
            "dynamo": ("pythonic",),
            "smg": ("pythonic",),
            "mlx-lm": ("pythonic",),
        },
        source="model card of meta-llama/Llama-4-Scout-17B-16E-Instruct",
        quirks=(
            "Without <|python_start|> the list must begin a turn: behind text it is content. Text may follow it.",
            "Both true and True, null and None are read. A tuple is a list; positional arguments and sets make "
            "it no call.",
            "A list that is cut off gives no call at all.",
        ),
        disagreements=(
            "-1 or true as a value: SGLang discards the whole output; vLLM and unspool read it.",
            "Sets: vLLM reads them as lists, for unspool the text is content.",
        ),
    ),
)
