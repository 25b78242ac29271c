"""Plugin files: loading them without their engine, and what their faults become."""

from __future__ import annotations

import importlib
import json
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unspool
from tests.compat.conftest import EXAMPLES, Load
from tests.laws.strategies import TOOLS as SAMPLE_TOOLS
from tests.laws.strategies import merged, split, without_ids
from unspool import Event, Finish, Message, ToolCall, ToolCallEnd
from unspool.compat import (
    ChatCompletionRequest,
    PluginError,
    PluginParser,
    ReasoningParserManager,
    ToolParserManager,
    get_reasoning_parser,
    get_tool_parser,
    load_plugin,
)
from unspool.formats import samples

TOOLS: Any = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
RAW = '<thought>Well [[f]] no.</thought>Let me see. [[f {"a": "x[y]"}]][[f {}]]<|im_end|>'
EXPECTED = Message(
    "Well [[f]] no.",
    "Let me see. ",
    (ToolCall("", "f", '{"a": "x[y]"}'), ToolCall("", "f", "{}")),
    "tool_calls",
)

STREAMING = """
from vllm.entrypoints.openai.protocol import (DeltaFunctionCall, DeltaMessage, DeltaToolCall,
                                              ExtractedToolCallInformation, FunctionCall, ToolCall)
from vllm.entrypoints.openai.tool_parsers.abstract_tool_parser import ToolParser, ToolParserManager

@ToolParserManager.register_module("bad")
class Bad(ToolParser):
    def extract_tool_calls(self, model_output, request):
        {whole}

    def extract_tool_calls_streaming(self, previous_text, current_text, delta_text, previous_token_ids,
                                     current_token_ids, delta_token_ids, request):
        {streamed}
"""


def request(**options: Any) -> ChatCompletionRequest:
    return ChatCompletionRequest(tools=TOOLS, **options)


def events(parser: PluginParser, pieces: Iterable[str], reason: str = "stop") -> list[Event]:
    return [event for piece in pieces for event in parser.feed(piece)] + parser.finish(reason)


def read(text: str, *, stream: bool = True, size: int = 3, reason: str = "stop", **options: Any) -> Message:
    """What the parser named "bad" makes of a text, by events that must be legal."""
    parser = PluginParser(get_tool_parser("bad"), request=request(**options), stream=stream)
    found = events(parser, [text[at : at + size] for at in range(0, len(text), size)], reason)
    check_legal(found)
    return without_ids(Message.from_events(found))


def check_legal(found: list[Event]) -> None:
    """Starts before deltas, ends after valid JSON, each once, one finish at the end."""
    arguments: dict[int, str] = {}
    ended = set()
    for event in merged(found):
        match event:
            case ("ToolCallStart", index, name):
                assert index == len(arguments)
                assert name
                arguments[index] = ""
            case ("ToolCallDelta", index, text):
                assert index not in ended
                arguments[index] += text
            case ("ToolCallEnd", index):
                assert index not in ended
                assert isinstance(json.loads(arguments[index]), dict)
                ended.add(index)
    assert [isinstance(event, Finish) for event in found].count(True) == 1
    assert isinstance(found[-1], Finish)


@pytest.fixture
def examples() -> None:
    load_plugin(EXAMPLES / "my_parser.py")
    load_plugin(EXAMPLES / "my_reasoning.py")


def test_the_documented_plugins_are_known_by_their_names(examples: None) -> None:
    assert get_tool_parser("my_parser") is get_tool_parser("brackets")
    assert get_tool_parser("my_parser").__name__ == "MyToolParser"
    assert get_reasoning_parser("my_reasoning").__name__ == "MyReasoningParser"
    assert [name for name in sys.modules if name.split(".")[0] in ("vllm", "vllm_mlx")] == []
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("vllm")


def test_the_managers_load_plugins_under_their_own_names() -> None:
    ToolParserManager.import_tool_parser(str(EXAMPLES / "my_parser.py"))
    ReasoningParserManager.import_reasoning_parser(str(EXAMPLES / "my_reasoning.py"))
    assert get_tool_parser("my_parser").__name__ == "MyToolParser"
    assert get_reasoning_parser("my_reasoning").__name__ == "MyReasoningParser"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.usefixtures("examples")
def test_the_documented_plugins_read(stream: bool) -> None:
    rng = random.Random(0)
    for cuts in [[], range(len(RAW)), *(rng.choices(range(len(RAW)), k=8) for _ in range(50))]:
        parser = PluginParser(
            get_tool_parser("brackets"), get_reasoning_parser("my_reasoning"), request=request(), stream=stream
        )
        found = events(parser, split(RAW, list(cuts)))
        check_legal(found)
        expected = (
            EXPECTED
            if stream
            else Message(EXPECTED.reasoning, "Let me see.", *(EXPECTED.tool_calls,), "tool_calls")
        )
        assert without_ids(Message.from_events(found)) == expected


@pytest.mark.usefixtures("examples")
@given(
    text=st.lists(
        st.sampled_from(["[[f ", "{", "}", "]]", '"a"', ":", "1", " ", "[", "x", "<thought>", "</thought>"])
    ).map("".join),
    cuts=st.lists(st.integers(0, 60)),
    reason=st.sampled_from(["stop", "length"]),
)
def test_whatever_comes_the_events_are_legal(text: str, cuts: list[int], reason: str) -> None:
    tool, reasoning = get_tool_parser("my_parser"), get_reasoning_parser("my_reasoning")
    found = events(PluginParser(tool, reasoning, request=request()), split(text, cuts), reason)
    check_legal(found)
    whole = events(PluginParser(tool, reasoning, request=request(), stream=False), [text], reason)
    check_legal(whole)


@pytest.mark.usefixtures("examples")
def test_a_plugin_and_a_format_go_together() -> None:
    thinks = "<think>\nHm.\n</think>\n\nSee: [[f {}]]"
    parser = PluginParser(get_tool_parser("my_parser"), get_reasoning_parser("qwen3"), request=request())
    expected = Message("Hm.", "See: ", (ToolCall("", "f", "{}"),), "tool_calls")
    assert without_ids(Message.from_events(events(parser, thinks))) == expected
    calls = '<thought>Hm.</thought>See:\n<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    parser = PluginParser(get_tool_parser("hermes"), get_reasoning_parser("my_reasoning"), request=request())
    expected = Message("Hm.", "See:", (ToolCall("", "f", "{}"),), "tool_calls")
    assert without_ids(Message.from_events(events(parser, calls))) == expected


@pytest.mark.usefixtures("examples")
def test_the_prompt_reaches_a_format_beside_a_plugin() -> None:
    raw = "Hm.\n</think>\n\nSee: [[f {}]]"
    tool, reasoning = get_tool_parser("my_parser"), get_reasoning_parser("qwen3")
    parser = PluginParser(tool, reasoning, request=request(), prompt="<|im_start|>assistant\n<think>\n")
    assert Message.from_events(events(parser, raw)).reasoning == "Hm."


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("stream", [True, False])
def test_without_tools_nothing_is_a_call(stream: bool) -> None:
    for asked in (ChatCompletionRequest(), request(tool_choice="none")):
        parser = PluginParser(get_tool_parser("my_parser"), request=asked, stream=stream)
        assert Message.from_events(events(parser, "a [[f {}]]")) == Message(content="a [[f {}]]")


@pytest.mark.usefixtures("examples")
def test_one_call_at_most() -> None:
    for stream in (True, False):
        parser = PluginParser(
            get_tool_parser("my_parser"), request=request(parallel_tool_calls=False), stream=stream
        )
        message = Message.from_events(events(parser, '[[f {"a": 1}]][[f {"a": 2}]]'))
        assert [call.arguments for call in message.tool_calls] == ['{"a": 1}']


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fmt", [fmt for fmt in unspool.formats() if fmt.reasoning], ids=str)
def test_formats_behind_both_interfaces_are_still_the_formats(fmt: unspool.Format, stream: bool) -> None:
    for _, prompt, raw in samples(fmt):
        expected = without_ids(unspool.parse(fmt, raw, tools=SAMPLE_TOOLS, prompt=prompt))
        for size in (1, 4, len(raw)):
            parser = PluginParser(
                get_tool_parser(fmt.name),
                get_reasoning_parser(fmt.name),
                request=ChatCompletionRequest(tools=SAMPLE_TOOLS),  # type: ignore[arg-type]
                prompt=prompt,
                stream=stream,
                stops=fmt.stops,
            )
            found = events(parser, [raw[at : at + size] for at in range(0, len(raw), size)])
            check_legal(found)
            assert without_ids(Message.from_events(found)) == expected


# ---- loading


def test_registration_as_documented_by_a_lazy_name(load: Load) -> None:
    load(
        """
        from vllm.tool_parsers import ToolParser, ToolParserManager

        class ExampleToolParser(ToolParser):
            pass

        ToolParserManager.register_lazy_module(
            name="example", module_path="vllm.tool_parsers.example", class_name="ExampleToolParser"
        )
        """
    )
    assert get_tool_parser("example").__name__ == "ExampleToolParser"


@pytest.mark.parametrize(
    "imports",
    [
        "from vllm.entrypoints.openai.protocol import DeltaMessage, ChatCompletionRequest, FunctionCall",
        "from vllm.entrypoints.openai.engine.protocol import DeltaToolCall, ExtractedToolCallInformation",
        "from vllm.entrypoints.generate.base.protocol import DeltaFunctionCall, ToolCall",
        "from vllm.entrypoints.openai.responses.protocol import ResponsesRequest",
        "from vllm.entrypoints.chat_utils import make_tool_call_id; assert make_tool_call_id()",
        "from vllm.utils import random_uuid; assert random_uuid()",
        "import vllm.envs as envs; assert envs.NO_SUCH_VARIABLE is None",
        "from vllm.logger import init_logger; log = init_logger(__name__); log.warning_once('a'); log.info('b')",
        "from vllm.transformers_utils.tokenizer import AnyTokenizer, MistralTokenizer",
        "from vllm.tokenizers import TokenizerLike",
        "from vllm.tool_parsers.utils import partial_tag_overlap as p; assert p('a<to', '<tool>') == 3",
        "from vllm.tool_parsers.hermes_tool_parser import Hermes2ProToolParser",
        "from vllm.reasoning.deepseek_r1_reasoning_parser import DeepSeekR1ReasoningParser",
        "from vllm.reasoning.basic_parsers import BaseThinkingReasoningParser",
        "from vllm.sampling_params import StructuredOutputsParams; StructuredOutputsParams(json={})",
        "from vllm_mlx.tool_parsers.abstract_tool_parser import ToolParser",
        "from vllm_mlx.reasoning import ReasoningParser, register_parser",
    ],
)
def test_what_plugins_import_is_there(load: Load, imports: str) -> None:
    load(
        f"""
from vllm.tool_parsers.abstract_tool_parser import ToolParser as Base, ToolParserManager
{imports}

@ToolParserManager.register_module("mine")
class Mine(Base):
    pass
"""
    )
    assert get_tool_parser("mine").__name__ == "Mine"


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1\n", "registers no parser; it needs @ToolParserManager.register_module"),
        ("def f(:\n", r"line 1: "),
        ("\nimport no_such_package\n", "line 2: No module named 'no_such_package'. Install what the plugin needs"),
        ("from vllm.worker import Worker\n", r"line 1: No module named 'vllm.worker'.*install vllm\."),
        ("\n\n1 / 0\n", "line 3: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", "line 2: SystemExit: 3"),
        ("\0", r"plugin_0\.py: source code string cannot contain null bytes"),
        ("(" * 5000, r"plugin_0\.py.*nested|plugin_0\.py.*parentheses"),
        ("from vllm.reasoning import Nothing\n", "cannot import name 'Nothing'.*install vllm"),
    ],
)
def test_a_plugin_that_cant_be_loaded_says_where_and_why(load: Load, source: str, complaint: str) -> None:
    before = set(sys.modules)
    with pytest.raises(PluginError, match=complaint):
        load(source)
    assert {name for name in set(sys.modules) - before if name.startswith("vllm")} == set()


def test_a_file_named_like_a_module_takes_nobodys_place(tmp_path: Path) -> None:
    source = (
        "import json\nfrom vllm.tool_parsers import ToolParser, ToolParserManager\n"
        "@ToolParserManager.register_module(json.loads('\"mine\"'))\nclass Mine(ToolParser): pass\n"
    )
    for name in ("json", "unspool"):
        known = sys.modules[name]
        (tmp_path / f"{name}.py").write_text(source)
        load_plugin(tmp_path / f"{name}.py")
        assert sys.modules[name] is known
        assert get_tool_parser("mine").__module__ == f"plugin_{name}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"nowhere\.py can't be read"):
        load_plugin(tmp_path / "nowhere.py")
    with pytest.raises(PluginError, match=r"'no_such_module' can't be imported.*must end in \.py"):
        load_plugin("no_such_module")


def test_the_engine_itself_is_used_where_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Load
) -> None:
    package = tmp_path / "site" / "vllm" / "tool_parsers"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(
        "class ToolParser:\n    def __init__(self, tokenizer, tools=None): self.real = True\n"
        "class ToolParserManager:\n    tool_parsers = {}\n    lazy_parsers = {}\n"
        "    @classmethod\n    def register_module(cls, name):\n"
        "        def keep(kind):\n            cls.lazy_parsers[name] = (kind.__module__, kind.__name__)\n"
        "            return kind\n        return keep\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    load(
        """
        from vllm.tool_parsers import ToolParser, ToolParserManager

        @ToolParserManager.register_module("real")
        class Real(ToolParser):
            def extract_tool_calls(self, model_output, request):
                return {"tools_called": False, "tool_calls": [], "content": "whole: " + model_output}
        """
    )
    try:
        assert get_tool_parser("real")(None).real  # type: ignore[attr-defined]
        parser = PluginParser(get_tool_parser("real"), request=request(), stream=False)
        assert Message.from_events(events(parser, ["a"])).content == "whole: a"
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "vllm"]:
            del sys.modules[name]


def test_imports_inside_functions_work_while_the_parser_runs(load: Load) -> None:
    load(
        """
        from vllm.tool_parsers import ToolParser, ToolParserManager

        @ToolParserManager.register_module("bad")
        class Late(ToolParser):
            def extract_tool_calls_streaming(self, previous_text, current_text, delta_text, *rest):
                from vllm.entrypoints.openai.protocol import DeltaMessage
                return DeltaMessage(content=delta_text.upper())

            def extract_tool_calls(self, model_output, request):
                from vllm.entrypoints.openai.protocol import ExtractedToolCallInformation
                content = model_output.upper()
                return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=content)
        """
    )
    assert read("hello there").content == read("hello there", stream=False).content == "HELLO THERE"
    assert "vllm" not in sys.modules


# ---- parsers that do something else than they should

CALL = (
    'return ExtractedToolCallInformation(tools_called=True, content="Hi", '
    'tool_calls=[ToolCall(function=FunctionCall(name="f", arguments="{}"))])'
)
NONE = "return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=model_output)"


def delta(index: int = 0, **function: Any) -> str:
    call_id = f"id={function.pop('id')!r}, " if "id" in function else ""
    return f"DeltaToolCall(index={index}, {call_id}function=DeltaFunctionCall(**{function!r}))"


def bad(load: Load, streamed: str, whole: str = NONE) -> None:
    load(STREAMING.format(whole=whole, streamed=streamed))


def test_a_parser_that_raises_is_read_whole_at_the_end(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, "raise ValueError('boom')", CALL)
    assert read("Hi there") == Message(None, "Hi", (ToolCall("", "f", "{}"),), "tool_calls")
    assert "The parser Bad failed on 'Hi'" in caplog.text
    assert "ValueError: boom" in caplog.text
    assert caplog.text.count("The parser Bad") == 1


def test_a_parser_that_always_raises_passes_the_text_on(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, "raise ValueError('boom')", "raise ValueError('boom')")
    assert read("Hi there") == read("Hi there", stream=False) == Message(content="Hi there")
    assert "failed; what it does not read is content" in caplog.text


@pytest.mark.parametrize("stream", [True, False])
def test_a_parser_that_exits_takes_nobody_with_it(load: Load, stream: bool) -> None:
    bad(load, "raise SystemExit(3)", "raise SystemExit(3)")
    assert read("Hi there", stream=stream) == Message(content="Hi there")


def test_a_parser_that_shows_nothing_and_cant_read_whole_outputs_leaves_content(load: Load) -> None:
    bad(load, "return None", "raise NotImplementedError")
    assert read("Hi there") == Message(content="Hi there")


def test_a_parser_that_fails_later_loses_nothing(load: Load) -> None:
    bad(load, "if len(current_text) > 4: raise KeyError(1)\n        return DeltaMessage(content=delta_text)")
    assert read("Hi there, you") == Message(content="Hi there, you")


def test_a_parser_that_does_not_stream(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, "raise NotImplementedError('no')", CALL)
    assert read("Hi there") == Message(None, "Hi", (ToolCall("", "f", "{}"),), "tool_calls")
    assert "does not stream; what it reads is sent at the end" in caplog.text


@pytest.mark.parametrize(
    "nonsense",
    ["7", "'text'", "DeltaMessage(content=7)", "DeltaMessage(tool_calls=7)", "DeltaMessage(tool_calls=[7])"],
)
def test_nonsense_is_a_failure(load: Load, nonsense: str, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, f"return {nonsense}")
    assert read("Hi") == Message(content="Hi")
    assert "The parser Bad failed on 'Hi' (TypeError: " in caplog.text.replace(
        "; its output is read whole at the end", ""
    )


def test_a_call_without_a_name_is_left_out(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, f"return DeltaMessage(tool_calls=[{delta(arguments='{}')}])")
    assert read("x") == Message(content="x")
    assert "gave arguments of a call without a name; left out" in caplog.text


def test_arguments_before_the_name_wait_for_it(load: Load) -> None:
    steps = [delta(arguments='{"a"'), delta(name="f", arguments=": 1}")]
    bad(load, f"return DeltaMessage(tool_calls=[{', '.join(steps)}]) if not previous_text else None")
    assert read("x") == Message(None, "x", (ToolCall("", "f", '{"a": 1}'),), "tool_calls")


def test_arguments_that_never_end_are_no_call(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, f"return DeltaMessage(tool_calls=[{delta(name='f', arguments='{')}]) if not previous_text else None")
    assert read("x").tool_calls == ()
    assert "never completed the arguments of the call 'f'" in caplog.text
    caplog.clear()
    assert read("x", reason="length") == Message(finish_reason="length")
    assert not caplog.records


def test_the_rest_of_the_arguments_is_found(load: Load) -> None:
    start = f"return DeltaMessage(tool_calls=[{delta(name='f', arguments='{')}]) if not previous_text else None"
    whole = CALL.replace('"{}"', "'{\"a\": 1}'")
    bad(load, start, whole)
    assert [call.arguments for call in read("x").tool_calls] == ['{"a": 1}']
    noted = (
        "self.prev_tool_call_arr = [{'name': 'f', 'arguments': {'b': 2}}]; self.streamed_args_for_tool = ['{']; "
    )
    bad(load, noted + start)
    assert [call.arguments for call in read("x").tool_calls] == ['{"b": 2}']


def test_a_call_held_to_the_end_follows(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    bad(load, "return None", CALL)
    assert read("x") == Message(None, "Hi", (ToolCall("", "f", "{}"),), "tool_calls")
    assert "held calls back to the end of the stream" in caplog.text
    assert read("x", reason="length").tool_calls == ()


def test_a_number_that_comes_back_is_another_call(load: Load) -> None:
    first, second = delta(name="f", arguments="{}", id="a"), delta(name="f", arguments='{"a": 1}', id="b")
    bad(load, f"return DeltaMessage(tool_calls=[{first}, {second}]) if not previous_text else None")
    assert [call.arguments for call in read("x").tool_calls] == ["{}", '{"a": 1}']


def test_late_arguments_of_an_ended_call_are_left_out(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    steps = [delta(name="f", arguments="{}"), delta(1, name="f", arguments="{}"), delta(arguments="more")]
    bad(load, f"return DeltaMessage(tool_calls=[{', '.join(steps)}]) if not previous_text else None")
    assert [call.arguments for call in read("x").tool_calls] == ["{}", "{}"]
    assert "went on with the call 'f' after its end" in caplog.text


def test_ids_are_never_shared(load: Load) -> None:
    steps = [delta(name="f", arguments="{}", id="a"), delta(1, name="f", arguments="{}", id="a")]
    bad(load, f"return DeltaMessage(tool_calls=[{', '.join(steps)}]) if not previous_text else None")
    found = events(PluginParser(get_tool_parser("bad"), request=request()), ["x"])
    assert len({call.id for call in Message.from_events(found).tool_calls}) == 2


def test_arguments_may_be_objects(load: Load) -> None:
    bad(load, "raise NotImplementedError", CALL.replace('"{}"', '{"a": [1]}'))
    assert [call.arguments for call in read("x").tool_calls] == ['{"a": [1]}']


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("streamed", ["return None", "raise NotImplementedError", "raise ValueError('boom')"])
def test_where_no_whole_call_is_one_the_text_stays(
    load: Load, stream: bool, streamed: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad(load, streamed, CALL.replace('"{}"', '"{"').replace('content="Hi"', "content=None"))
    assert read("Hi <call>f {", stream=stream) == Message(content="Hi <call>f {")
    assert "gave a call 'f' with the arguments '{'; left out" in caplog.text
    # What the end of the text cut off is no content.
    assert read("Hi <call>f {", stream=stream, reason="length") == Message(finish_reason="length")


def test_a_whole_call_that_is_none_is_left_out_beside_one_that_is(
    load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    two = CALL.replace("tool_calls=[", 'tool_calls=[ToolCall(function=FunctionCall(name="f", arguments="{")), ')
    bad(load, "return None", two)
    assert read("x", stream=False) == Message(None, "Hi", (ToolCall("", "f", "{}"),), "tool_calls")
    assert "gave a call 'f' with the arguments '{'; left out" in caplog.text


BAD_CALLS = [
    "[5]",
    "[None]",
    "['f']",
    "[{'function': 'f'}]",
    "[{'function': [1]}]",
    "[{'function': {'name': 'f', 'arguments': {(1, 2): 3}}}]",
    "[{'function': {'name': 'f', 'arguments': endless}}]",
    "[Angry()]",
    "7",
]
ANGRY = """
        class Angry:
            def model_dump(self):
                raise RuntimeError("angry")
        endless = {}
        endless["again"] = endless
"""


@pytest.mark.parametrize("calls", BAD_CALLS)
@pytest.mark.parametrize("stream", [True, False])
def test_bad_calls_of_a_whole_reading_leave_the_text(load: Load, stream: bool, calls: str) -> None:
    whole = f"{ANGRY}\n        return {{'tools_called': True, 'tool_calls': {calls}, 'content': None}}"
    bad(load, "raise NotImplementedError", whole)
    assert read("Hi there", stream=stream) == Message(content="Hi there")


@pytest.mark.parametrize("calls", BAD_CALLS)
def test_bad_calls_of_a_delta_lose_nothing_of_it(load: Load, calls: str) -> None:
    step = f"return {{'content': delta_text, 'tool_calls': {calls} if len(current_text) == 6 else []}}"
    bad(load, f"{ANGRY}\n        {step}")
    assert read("Hi there, you") == Message(content="Hi there, you")


@pytest.mark.parametrize("calls", BAD_CALLS)
def test_bad_calls_at_the_end_of_a_stream_lose_nothing(load: Load, calls: str) -> None:
    bad(
        load,
        f"""return {{"content": delta_text}}

    def finalize_streaming(self, current_text):
        {ANGRY}
        return {{"content": "more", "tool_calls": {calls}}}""",
    )
    assert read("Hi there") == Message(content="Hi there")


@pytest.mark.parametrize("rest", ["return 5", "raise KeyError(1)"])
def test_a_bad_rest_of_arguments_is_none(load: Load, rest: str) -> None:
    start = f"return DeltaMessage(tool_calls=[{delta(name='f', arguments='{')}]) if not previous_text else None"
    bad(load, f"{start}\n\n    def get_remaining_unstreamed_args(self):\n        {rest}")
    assert read("x", reason="length") == Message(finish_reason="length")


@pytest.mark.parametrize("answer", ["return 5", "return {}", "raise KeyError(1)", "return None"])
def test_a_bad_change_to_the_request_is_none(load: Load, answer: str, caplog: pytest.LogCaptureFixture) -> None:
    bad(
        load,
        f"return DeltaMessage(content=delta_text)\n\n    def adjust_request(self, request):\n        {answer}",
    )
    assert read("Hi there") == Message(content="Hi there")
    assert ("The parser Bad failed" in caplog.text) == (answer != "return None")


STRIPS = "return ExtractedToolCallInformation(tools_called=False, tool_calls=[], content={})"


@pytest.mark.parametrize("content", ["model_output.strip()", "model_output.lstrip()", "model_output.upper()"])
@pytest.mark.parametrize("fails_at", [1, 4, 7, 10])
def test_a_whole_reading_that_changes_the_text_loses_none_of_it(load: Load, content: str, fails_at: int) -> None:
    failing = (
        f"if len(current_text) > {fails_at}: raise KeyError(1)\n        return DeltaMessage(content=delta_text)"
    )
    bad(load, failing, STRIPS.format(content))
    said = read("  Hi there,   you").content
    assert said is not None
    assert "".join(said.lower().split()) == "hithere,you"
    if "strip" in content and fails_at >= 3:
        assert said == "  Hi there,   you"


def test_a_whole_reading_with_a_call_that_strips_adds_only_what_is_missing(load: Load) -> None:
    failing = "if '[' in current_text: raise KeyError(1)\n        return DeltaMessage(content=delta_text)"
    bad(load, failing, CALL.replace('"Hi"', "model_output.partition('[')[0].strip()"))
    call = (ToolCall("", "f", "{}"),)
    assert read("  Hi you[f]") == Message(None, "  Hi you", call, "tool_calls")
    # The space was sent before the reading failed.
    assert read("  Hi [f]") == Message(None, "  Hi ", call, "tool_calls")


def test_a_parser_that_needs_more_than_a_tokenizer_cant_be_made(load: Load) -> None:
    load(
        """
        from vllm.tool_parsers import ToolParser, ToolParserManager

        @ToolParserManager.register_module("bad")
        class Bad(ToolParser):
            def __init__(self, tokenizer):
                super().__init__(tokenizer)
                raise RuntimeError("where are my markers?")
        """
    )
    with pytest.raises(PluginError, match=r"The parser Bad can't be made: RuntimeError: where are my markers\?"):
        PluginParser(get_tool_parser("bad"), request=request())


def test_nothing_is_fed_after_the_end() -> None:
    parser = PluginParser(request=request())
    assert parser.finish() == [Finish("stop")]
    assert parser.finish() == []
    with pytest.raises(ValueError, match="use a new parser"):
        parser.feed("x")
    with pytest.raises(ValueError, match="needs a parser that was built with tokenizer="):
        PluginParser().feed_tokens([1])


# ---- reasoning


REASONING = """
from vllm.reasoning import ReasoningParser, ReasoningParserManager

@ReasoningParserManager.register_module("thinks")
class Thinks(ReasoningParser):
    {body}
"""


def think(text: str, stream: bool, prompt: str | None = None) -> Message:
    parser = PluginParser(None, get_reasoning_parser("thinks"), request=request(), stream=stream, prompt=prompt)
    return Message.from_events(events(parser, text))


@pytest.mark.parametrize("stream", [True, False])
def test_parsers_derived_from_the_engines_own(load: Load, stream: bool) -> None:
    load(
        """
        from vllm.reasoning.abs_reasoning_parsers import ReasoningParserManager
        from vllm.reasoning.deepseek_r1_reasoning_parser import DeepSeekR1ReasoningParser

        @ReasoningParserManager.register_module("thinks")
        class Thinks(DeepSeekR1ReasoningParser):
            def extract_reasoning(self, model_output, request):
                reasoning, content = super().extract_reasoning(model_output, request)
                off = (request.chat_template_kwargs or {}).get("enable_thinking") is False
                return (None, reasoning) if off and content is None else (reasoning, content)
        """
    )
    assert think("<think>Hm.</think>Hi", stream) == Message("Hm.", "Hi")
    assert think("Hm.</think>Hi", stream) == Message("Hm.", "Hi")
    if not stream:
        asked = request(chat_template_kwargs={"enable_thinking": False})
        parser = PluginParser(None, get_reasoning_parser("thinks"), request=asked, stream=False)
        assert Message.from_events(events(parser, "Hi")) == Message(content="Hi")


@pytest.mark.parametrize("stream", [True, False])
def test_two_markers_of_ones_own(load: Load, stream: bool) -> None:
    load(
        """
        from vllm.reasoning import ReasoningParserManager
        from vllm.reasoning.basic_parsers import BaseThinkingReasoningParser

        @ReasoningParserManager.register_module("thinks")
        class Thinks(BaseThinkingReasoningParser):
            @property
            def start_token(self) -> str:
                return "<hm>"

            @property
            def end_token(self) -> str:
                return "</hm>"
        """
    )
    assert think("<hm>Well.</hm>Hi", stream) == Message("Well.", "Hi")
    parser = get_reasoning_parser("thinks")(None)
    assert (parser.reasoning_start_str, parser.reasoning_end_str) == ("<hm>", "</hm>")


@pytest.mark.parametrize("stream", [True, False])
def test_the_older_names_of_the_methods(load: Load, stream: bool) -> None:
    load(
        """
        from vllm.entrypoints.openai.protocol import DeltaMessage
        from vllm.reasoning import ReasoningParser, ReasoningParserManager

        @ReasoningParserManager.register_module("thinks")
        class Thinks(ReasoningParser):
            def __init__(self, tokenizer):
                super().__init__(tokenizer)
                self.over = False

            def is_reasoning_end(self, input_ids):
                return self.over

            def extract_content_ids(self, input_ids):
                return []

            def extract_reasoning_content(self, model_output, request):
                return tuple(model_output.split("|"))

            def extract_reasoning_content_streaming(self, previous_text, current_text, delta_text,
                                                    previous_token_ids, current_token_ids, delta_token_ids):
                before, bar, after = delta_text.partition("|")
                self.over = bool(bar)
                return DeltaMessage(reasoning_content=before, content=after or None)
        """
    )
    assert think("Well.|Hi", stream) == Message("Well.", "Hi")


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("method", ["extract_reasoning", "extract_reasoning_content"])
def test_a_reasoning_parser_of_whole_outputs_reads_streams_at_their_end(
    load: Load, method: str, stream: bool
) -> None:
    load(
        f"""
        from vllm.reasoning import ReasoningParser, ReasoningParserManager

        @ReasoningParserManager.register_module("mine")
        class Mine(ReasoningParser):
            def {method}(self, model_output, request=None):
                reasoning, _, content = model_output.partition("</t>")
                return reasoning, content
        """
    )
    parser = PluginParser(None, get_reasoning_parser("mine"), stream=stream)
    assert Message.from_events(events(parser, "a</t>b")) == Message("a", "b")


def test_a_prompt_that_closed_reasoning_leaves_only_content(load: Load) -> None:
    load(
        """
        from vllm.reasoning.abs_reasoning_parsers import ReasoningParserManager
        from vllm.reasoning.deepseek_r1_reasoning_parser import DeepSeekR1ReasoningParser
        ReasoningParserManager.register_module("thinks", module=DeepSeekR1ReasoningParser)
        """
    )
    assert think("Hi", True, "<|im_start|>assistant\n<think>\n\n</think>\n\n") == Message(content="Hi")
    assert think("Hi", True, "<think></think><|im_start|>assistant\n<think>") == Message(reasoning="Hi")


@pytest.mark.parametrize("stream", [True, False])
def test_a_reasoning_parser_that_raises_leaves_content(
    load: Load, stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    load(REASONING.format(body="pass"))
    assert think("Hm", stream) == Message(content="Hm")
    assert "The parser Thinks failed; what it does not read is content" in caplog.text


# ---- vllm-mlx


@pytest.mark.parametrize("stream", [True, False])
def test_plugins_for_vllm_mlx(load: Load, stream: bool) -> None:
    load(
        """
        from vllm_mlx.reasoning import BaseThinkingReasoningParser, register_parser
        from vllm_mlx.tool_parsers.abstract_tool_parser import (
            ExtractedToolCallInformation, ToolParser, ToolParserManager)

        @ToolParserManager.register_module(["bad"])
        class Lines(ToolParser):
            def __init__(self, tokenizer=None):
                super().__init__(tokenizer)
                self.reset()

            def reset(self):
                self.calls = 0

            def extract_tool_calls(self, model_output, request=None):
                assert isinstance(request, dict) and request["tools"][0]["function"]["name"] == "f"
                content, _, call = model_output.partition("CALL ")
                calls = [{"id": "c", "name": "f", "arguments": call}] if call else []
                content = content.strip()
                return ExtractedToolCallInformation(tools_called=bool(calls), tool_calls=calls, content=content)

            def extract_tool_calls_streaming(self, previous_text, current_text, delta_text,
                                             previous_token_ids=None, current_token_ids=None,
                                             delta_token_ids=None, request=None):
                if "C" not in current_text:
                    return {"content": delta_text}
                return None

            def finalize_streaming(self, current_text):
                found = self.extract_tool_calls(current_text, {"tools": [{"function": {"name": "f"}}]})
                return {"tool_calls": [{"index": i, "id": c.id, "type": "function", "function": c.function}
                                       for i, c in enumerate(found.tool_calls)]}

        class Thinks(BaseThinkingReasoningParser):
            start_token = "<hm>"
            end_token = "</hm>"

        register_parser("thinks", Thinks)
        """
    )
    parser = PluginParser(get_tool_parser("bad"), get_reasoning_parser("thinks"), request=request(), stream=stream)
    found = events(parser, ["<hm>We", "ll.</h", 'm>Hi CALL {"a"', ": 1}"])
    check_legal(found)
    expected = Message("Well.", "Hi", (ToolCall("", "f", '{"a": 1}'),), "tool_calls")
    assert without_ids(Message.from_events(found)) == expected
    assert isinstance(found[-2], ToolCallEnd)
