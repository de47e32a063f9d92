"""Messages are converted to and from the forms of providers, and common content is read back equal."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from treering import image, text, thinking, tool_result, tool_use
from treering.events.content import Content, ImagePart, Text, TextPart, Thinking, ThinkingPart, ToolUse, ToolUsePart
from treering.events.entries import ROLES, BashExecution, Message, Usage
from treering.events.errors import InvalidEntry
from treering.events.json_values import raw_json
from treering.events.providers.anthropic import AnthropicPrompt, from_anthropic, to_anthropic
from treering.events.providers.common import Block, rendered
from treering.events.providers.google import UNSIGNED, GooglePrompt, from_google, to_google
from treering.events.providers.openai import from_openai, to_openai
from treering.testing import strategies

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAE="
CALLED = ("c1", "c2", "c3")


def message_of(role: str, *content: Content, **fields: object) -> Message:
    make: Any = Message
    message: Message = make(role, content, **fields)
    return message


WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=16)
NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True)
IDS = st.from_regex(r"call_[a-zA-Z0-9]{1,8}", fullmatch=True)
OBJECTS = st.dictionaries(WORDS, strategies.json_values(max_leaves=4), max_size=3)
TEXTS = WORDS.map(text)
CALLS = st.builds(tool_use, IDS, NAMES, OBJECTS)
INLINE = st.builds(image, st.just("QUJD"), st.sampled_from(["image/png", "image/jpeg"]))
LINKED = st.sampled_from(["png", "webp", "jpg"]).map(
    lambda kind: image(f"https://a.example/b.{kind}", f"image/{kind.replace('jpg', 'jpeg')}", kind="url")
)
IMAGES = INLINE | LINKED | st.just(image("https://a.example/b", "image/*", kind="url"))
SHOWN = st.lists(TEXTS | IMAGES, min_size=1, max_size=3)


def message(role: str, *parts: SearchStrategy[Any], **fields: SearchStrategy[Any]) -> SearchStrategy[Message]:
    """Messages whose content is the drawn lists of parts, joined."""
    content = st.tuples(*parts).map(lambda drawn: tuple(part for each in drawn for part in each))
    return st.builds(Message, st.just(role), content, **fields)


# -- OpenAI

OPENAI = st.one_of(
    message("user", SHOWN),
    message("system", st.lists(TEXTS, min_size=1, max_size=3)),
    message("assistant", st.lists(TEXTS, max_size=2), st.lists(CALLS, min_size=1, max_size=2)),
    message("assistant", st.lists(TEXTS, min_size=1, max_size=2)),
    message("assistant", st.lists(TEXTS, min_size=1, max_size=1), stop_reason=st.just("refusal")),
    st.builds(
        lambda call, body: message_of("tool", tool_result(call, body)),
        IDS,
        WORDS | st.lists(TEXTS, min_size=1, max_size=3),
    ),
)


@given(OPENAI)
def test_a_message_is_read_back_equal_from_the_openai_form(given_message: Message) -> None:
    [written] = to_openai([given_message])
    assert from_openai(json.loads(json.dumps(written))) == given_message


@pytest.mark.feature("G-69")
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_openai_string_content_is_one_text_part(role: str) -> None:
    assert from_openai({"role": role, "content": "Hello"}) == message_of(role, text("Hello"))


@pytest.mark.feature("G-70")
def test_openai_text_parts_are_text_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert from_openai({"role": "user", "content": parts}) == message_of("user", text("a"), text("b"))


def test_openai_images_are_base64_or_a_url() -> None:
    urls = {
        "data:image/png;base64,QUJD": image("QUJD", "image/png"),
        "data:image/svg+xml,%3Csvg/%3E": image("data:image/svg+xml,%3Csvg/%3E", "image/svg+xml", kind="url"),
        "https://a.example/b.JPG?size=1#top": image("https://a.example/b.JPG?size=1#top", "image/jpeg", kind="url"),
        "https://a.example/b": image("https://a.example/b", "image/*", kind="url"),
    }
    for url, part in urls.items():
        for form in ({"url": url, "detail": "low"}, url):
            given_message = {"role": "user", "content": [{"type": "image_url", "image_url": form}]}
            assert from_openai(given_message) == message_of("user", part)
        assert to_openai([message_of("user", part)])[0]["content"] == [{"type": "image_url", "image_url": {"url": url}}]


@pytest.mark.parametrize("arguments", ['{"path": "main.go"}', {"path": "main.go"}, '{\n  "path": "main.go"\n}'])
@pytest.mark.parametrize("content", [None, ""])
def test_openai_calls_are_read_with_arguments_as_a_string_or_an_object(arguments: object, content: str | None) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
    found = from_openai({"role": "assistant", "content": content, "tool_calls": [call], "refusal": None, "audio": None})
    assert found == message_of("assistant", tool_use("c1", "read_file", {"path": "main.go"}))
    assert to_openai([found]) == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"main.go"}'}}
            ],
        }
    ]


def test_an_openai_call_without_arguments_is_read() -> None:
    for function in ({"name": "ls", "arguments": ""}, {"name": "ls"}):
        call = {"id": "c1", "type": "function", "function": function}
        assert from_openai({"role": "assistant", "tool_calls": [call]}) == message_of("assistant", tool_use("c1", "ls"))


def test_openai_tool_results_developer_messages_refusals_and_reasoning_are_read() -> None:
    answer = {"role": "tool", "tool_call_id": "c1", "content": "done"}
    assert from_openai(answer) == message_of("tool", tool_result("c1", "done"))
    assert from_openai({**answer, "name": "ls"}).tool_name == "ls"
    assert from_openai({"role": "developer", "content": "Be brief."}) == message_of("system", text("Be brief."))
    refused = message_of("assistant", text("No."), stop_reason="refusal")
    assert from_openai({"role": "assistant", "content": None, "refusal": "No."}) == refused
    part = {"type": "refusal", "refusal": "No."}
    assert from_openai({"role": "assistant", "content": [part]}) == refused
    assert to_openai([refused]) == [{"role": "assistant", "content": [part]}]
    twice = message_of("assistant", text("No."), text("Never."), stop_reason="refusal")
    [both] = to_openai([twice])
    assert both["content"] == [{"type": "refusal", "refusal": "No.\nNever."}], "more than one refusal is not allowed"
    for key in ("reasoning_content", "reasoning"):
        found = from_openai({"role": "assistant", "content": "Hi", key: "hm"})
        assert found == message_of("assistant", thinking("hm"), text("Hi"))
        assert to_openai([found]) == [{"role": "assistant", "content": "Hi"}]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ],
)
def test_items_of_the_openai_responses_form_are_refused_by_name(item: dict[str, object]) -> None:
    with pytest.raises(InvalidEntry, match="an item of the Responses form, and only chat completions are read"):
        from_openai(item)


@pytest.mark.parametrize("wrong", [None, "Hi", 5, {"role": "user", "content": [{"type": "audio"}]}, {"role": 5}])
def test_invalid_openai_messages_are_refused_without_mentioning_responses(wrong: object) -> None:
    with pytest.raises(InvalidEntry, match=r"^(?!.*Responses).* of a message of OpenAI$"):
        from_openai(wrong)  # type: ignore[arg-type]  # this is refused


@pytest.mark.parametrize("read", [from_openai, from_anthropic])
def test_a_list_instead_of_a_message_is_refused(read: Callable[[object], Message]) -> None:
    with pytest.raises(InvalidEntry, match=r"a list is not a message of .*: read its messages one by one"):
        read([{"role": "user", "content": "Hi"}])


def test_openai_results_directly_follow_their_calls_and_images_come_after_them() -> None:
    shot = image("QUJD", "image/png")
    written = to_openai(
        [
            message_of("assistant", text("I drew."), tool_use("c1", "shot"), tool_use("c2", "ls"), shot),
            message_of("tool", tool_result("c1", [shot])),
            message_of("user", tool_result("c2", [text("a"), shot]), text("And?")),
            message_of("user", text("Go on.")),
        ]
    )
    assert [block["role"] for block in written] == ["assistant", "tool", "tool", "user", "user", "user"]
    assert [block["content"] for block in written[1:3]] == ["(The result is an image, which follows.)", "a"]
    assert [block["content"] for block in written if block["role"] == "user"][::2] == ["And?", "Go on."]
    shown: Any = written[4]["content"]
    assert [part["type"] for part in shown] == ["text", "image_url", "image_url", "image_url"]
    assert to_openai([message_of("assistant", shot)])[-1]["role"] == "user"


# -- Anthropic

SIGNED = st.builds(lambda content, signature: thinking(content, signature=signature), st.text(), WORDS)
REDACTED = WORDS.map(lambda data: ThinkingPart(Thinking("", data, redacted=True)))
SAID = WORDS.filter(str.strip)
SPOKEN = SAID.map(text)
VISIBLE = st.lists(SPOKEN | IMAGES, min_size=1, max_size=3)
RESULTS = st.builds(tool_result, IDS, st.text() | SHOWN) | st.builds(
    tool_result, IDS, SAID | st.lists(SPOKEN, min_size=1, max_size=3), is_error=st.just(True)
)
BEFORE = st.lists(SPOKEN | CALLS | SIGNED | REDACTED, max_size=3)
ANTHROPIC = st.one_of(
    message("user", VISIBLE),
    message("assistant", st.builds(lambda parts, last: [*parts, last], BEFORE, SPOKEN | CALLS)),
    message("tool", st.lists(RESULTS, min_size=1, max_size=3)),
    message("user", st.lists(RESULTS, min_size=1, max_size=2), VISIBLE),
)


@given(ANTHROPIC)
def test_a_message_is_read_back_equal_from_the_anthropic_form(given_message: Message) -> None:
    system, [*opening, written] = to_anthropic([given_message])
    assert system == []
    assert len(opening) == (given_message.role == "assistant")
    assert from_anthropic(json.loads(json.dumps(written))) == given_message


@given(message("system", st.lists(SPOKEN, min_size=1, max_size=3)))
def test_a_system_message_is_separate_in_the_anthropic_form_and_read_back_equal(given_message: Message) -> None:
    prompt = to_anthropic([given_message])
    assert prompt.messages == []
    assert from_anthropic({"role": "system", "content": prompt.system}) == given_message


@pytest.mark.feature("G-71")
def test_anthropic_text_blocks_are_text_parts() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}]
    assert from_anthropic({"role": "user", "content": blocks}) == message_of("user", text("a"), text("b"))
    assert from_anthropic({"role": "user", "content": "a"}) == message_of("user", text("a"))


def test_a_whole_anthropic_answer_is_read_and_written() -> None:
    answer = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "xyz"},
            {"type": "text", "text": "Hi", "citations": None},
            {"type": "tool_use", "id": "t1", "name": "ls", "input": {}},
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 1,
            "output_tokens": 2,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": None,
            "service_tier": "standard",
        },
    }
    found = from_anthropic(answer)
    assert found == message_of(
        "assistant",
        thinking("hm", signature="s"),
        ThinkingPart(Thinking("", "xyz", redacted=True)),
        text("Hi"),
        tool_use("t1", "ls"),
        model="claude",
        stop_reason="tool_use",
        usage=Usage(1, 2, 3, 0, 6),
    )
    assert to_anthropic([found]).messages[1]["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "Hi"},
        {"type": "tool_use", "id": "t1", "name": "ls", "input": {}},
    ]


def test_an_anthropic_tool_result_is_read_with_a_string_a_list_or_no_content() -> None:
    form: list[tuple[object, str | list[TextPart]]] = [
        ("a", "a"),
        ([{"type": "text", "text": "a"}], [text("a")]),
        ([], ""),
        (None, ""),
    ]
    for content, body in form:
        block = {"type": "tool_result", "tool_use_id": "t1", "content": content, "is_error": True}
        found = from_anthropic({"role": "user", "content": [block]})
        assert found == message_of("tool", tool_result("t1", body, is_error=True))
    assert from_anthropic({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]}) == message_of(
        "tool", tool_result("t1")
    )


def test_anthropic_roles_alternate_and_results_come_first() -> None:
    shot = image("https://a.example/b.png", "image/png", kind="url")
    prompt = to_anthropic(
        [
            message_of("system", text("Be brief.")),
            message_of("user", text("a")),
            message_of("user", text("b"), text("")),
            message_of("assistant", thinking("unsigned"), tool_use("t1", "ls"), shot),
            message_of("user", text("Wait,")),
            message_of("tool", tool_result("t1", "x")),
            message_of("branchSummary", text("They tried.")),
            message_of("assistant", thinking("unsigned")),
            message_of("system", text("Still.")),
            message_of("user", text("c")),
        ]
    )
    assert prompt == AnthropicPrompt(
        [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "Still."}],
        [
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "ls", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t1", "content": "x"},
                    {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
                    {"type": "text", "text": "Wait,"},
                    {
                        "type": "text",
                        "text": "The following is a summary of a branch that this conversation came back from:\n\n"
                        "<summary>\nThey tried.</summary>",
                    },
                    {"type": "text", "text": "c"},
                ],
            },
        ],
    )
    assert to_anthropic([message_of("assistant", text("a"), shot)]).messages[1:] == [
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}}]},
    ]


def test_anthropic_is_not_sent_what_it_refuses() -> None:
    shot, drawing = image(PNG, "image/jpg"), image("PHN2Zy8+", "image/svg+xml")
    inline = image("data:image/svg+xml,%3Csvg/%3E", "image/svg+xml", kind="url")
    prompt = to_anthropic(
        [
            message_of("system", text(" ")),
            message_of("user", text("See"), text("\n"), shot, drawing, inline),
            message_of("assistant", thinking("hm", signature=""), text(" \n"), *map(tool_use, CALLED, CALLED)),
            message_of("tool", tool_result("c1", [text("No."), shot], is_error=True)),
            message_of("tool", tool_result("c2", [shot], is_error=True)),
            message_of("tool", tool_result("c3", " ", is_error=True)),
        ]
    )
    sent_shot: Block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    named = {"type": "text", "text": "[image: image/svg+xml]"}
    assert prompt.system == []
    assert prompt.messages[0]["content"] == [{"type": "text", "text": "See"}, sent_shot, named, named]
    assert prompt.messages[1]["content"] == [
        {"type": "tool_use", "id": each, "name": each, "input": {}} for each in CALLED
    ]
    *results, first, second = cast("list[Block]", prompt.messages[2]["content"])
    assert [result["content"] for result in results] == [
        [{"type": "text", "text": "No."}],
        "(The result is an image, which follows.)",
        "(no output)",
    ]
    assert first == second == sent_shot


@pytest.mark.parametrize("calls", [(), ("c1",)])
def test_a_conversation_that_begins_with_an_answer_is_opened_by_a_user(calls: Sequence[str]) -> None:
    cut = [message_of("system", text("Be brief.")), message_of("assistant", text("a"), *map(tool_use, calls, calls))]
    cut += [message_of("tool", tool_result(call, "b")) for call in calls]
    anthropic, google = to_anthropic(cut).messages, to_google(cut).contents
    words = "(The conversation begins with an answer.)"
    assert anthropic[0] == {"role": "user", "content": [{"type": "text", "text": words}]}
    assert google[0] == {"role": "user", "parts": [{"text": words}]}
    assert (anthropic[1]["role"], google[1]["role"]) == ("assistant", "model")


@pytest.mark.parametrize(
    ("beginning", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"RIFF\x10\0\0\0WAVEfmt ", "image/*"),
        (b"other", "image/*"),
    ],
)
def test_an_image_is_sent_under_the_type_of_its_data(beginning: bytes, media_type: str) -> None:
    data = b64encode(beginning).decode()
    shown = message_of("user", image(data, "image/*"))
    assert to_openai([shown])[0]["content"] == [
        {"type": "image_url", "image_url": {"url": f"data:{media_type};base64,{data}"}}
    ]
    assert to_google([shown]).contents[0]["parts"] == [{"inline_data": {"mime_type": media_type, "data": data}}]


# -- Google

AT_GOOGLE = image("gs://b/c.png", "image/png", kind="url")
SIGNATURES = st.none() | WORDS
GOOGLE_TEXTS = st.builds(lambda content, signature: TextPart(Text(content, signature)), WORDS, SIGNATURES)
GOOGLE_THOUGHTS = st.builds(lambda content, signature: thinking(content, signature=signature), st.text(), WORDS)
GOOGLE_CALLS = st.builds(
    lambda id, name, args, signature: ToolUsePart(ToolUse(id, name, raw_json(args), signature)),
    IDS,
    NAMES,
    OBJECTS,
    SIGNATURES,
)
ANSWERS = st.builds(tool_result, IDS, st.text(), is_error=st.booleans())
GOOGLE = st.one_of(
    message("user", st.lists(GOOGLE_TEXTS | IMAGES, min_size=1, max_size=3)),
    message("assistant", st.lists(GOOGLE_TEXTS | GOOGLE_CALLS | GOOGLE_THOUGHTS | IMAGES, min_size=1, max_size=4)),
    message("tool", st.lists(ANSWERS, min_size=2, max_size=3)),
    message("tool", st.lists(ANSWERS, min_size=1, max_size=1), tool_name=NAMES),
)


@given(GOOGLE)
def test_a_message_is_read_back_equal_from_the_google_form(given_message: Message) -> None:
    instruction, [*opening, written] = to_google([given_message])
    assert instruction is None
    assert len(opening) == (given_message.role == "assistant")
    assert from_google(written) == given_message
    assert from_google(camel(written)) == given_message


def camel(value: object, key: str = "") -> Any:  # noqa: ANN401
    """Convert the keys of a content to camel case, as in its JSON form, except in arguments and responses."""
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict) or key in {"args", "response"}:
        return value
    form = {name: "".join([name.split("_")[0], *(part.title() for part in name.split("_")[1:])]) for name in value}
    return {form[name]: camel(each, name) for name, each in value.items()}


@given(message("system", st.lists(TEXTS, min_size=1, max_size=3)))
def test_a_system_message_is_separate_in_the_google_form_and_read_back_equal(given_message: Message) -> None:
    prompt = to_google([given_message])
    assert prompt.contents == []
    assert prompt.system_instruction is not None
    assert from_google({"role": "system", **prompt.system_instruction}) == given_message


@pytest.mark.feature("G-72")
def test_google_text_parts_are_text_parts() -> None:
    parts = [{"text": "a"}, {"text": "b"}]
    assert from_google({"role": "user", "parts": parts}) == message_of("user", text("a"), text("b"))
    assert from_google({"role": "model", "parts": parts}) == message_of("assistant", text("a"), text("b"))
    assert from_google({"parts": parts}).role == "user"


@pytest.mark.feature("G-73")
@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"inline_data": {"mime_type": "image/png", "data": "QUJD"}}, image("QUJD", "image/png")),
        ({"inlineData": {"mimeType": "image/png", "data": "QUJD"}}, image("QUJD", "image/png")),
        ({"file_data": {"file_uri": "gs://b/c.png", "mime_type": "image/png"}}, AT_GOOGLE),
        ({"fileData": {"fileUri": "gs://b/c.png"}}, AT_GOOGLE),
    ],
)
def test_google_inline_data_and_file_data_are_images(part: dict[str, object], shown: ImagePart) -> None:
    assert from_google({"role": "user", "parts": [part]}) == message_of("user", shown)


@pytest.mark.parametrize(("written", "stored"), [("-_8AAQ==", "+/8AAQ=="), ("-_8AAQ", "+/8AAQ=="), ("+/8A", "+/8A")])
def test_google_bytes_in_either_alphabet_of_base64_are_stored_in_the_standard_one(written: str, stored: str) -> None:
    blob = {"mime_type": "image/png", "data": written}
    read_message = from_google({"role": "user", "parts": [{"inline_data": blob}]})
    assert read_message == message_of("user", image(stored, "image/png"))
    within = {"function_response": {"id": "c1", "name": "shoot", "parts": [{"inline_data": blob}]}}
    assert from_google({"parts": [within]}) == message_of(
        "tool", tool_result("c1", [image(stored, "image/png")]), tool_name="shoot"
    )


@pytest.mark.parametrize("is_error", [False, True])
def test_images_within_a_google_function_response_are_part_of_the_result(is_error: bool) -> None:
    response = {
        "id": "c1",
        "name": "shoot",
        "response": {"error" if is_error else "output": "Two pictures."},
        "parts": [
            {"inlineData": {"mimeType": "image/png", "data": "QUJD", "displayName": "a.png"}},
            {"fileData": {"fileUri": "gs://b/c.png"}, "mediaResolution": {"level": "MEDIA_RESOLUTION_LOW"}},
        ],
    }
    found = from_google({"role": "user", "parts": [{"functionResponse": response}]})
    pictures = (image("QUJD", "image/png"), image("gs://b/c.png", "image/png", kind="url"))
    result = tool_result("c1", [text("Two pictures."), *pictures], is_error=is_error)
    assert found == message_of("tool", result, tool_name="shoot")


def test_members_of_google_that_are_null_count_as_absent() -> None:
    nothing = dict.fromkeys(("inline_data", "file_data", "function_call", "executable_code", "anything_new", "thought"))
    call = {"name": "ls", "id": None, "args": {"path": None}, "will_continue": None}
    assert from_google(
        {"role": None, "parts": [{**nothing, "text": "a"}, {**nothing, "text": None, "function_call": call}]}
    ) == message_of("user", text("a"), tool_use("call_ls_1", "ls", {"path": None}))


def test_what_the_library_of_google_dumps_is_read() -> None:
    types = pytest.importorskip("google.genai.types")
    pixels = types.FunctionResponsePart.from_bytes(data=b"\xfb\xff\x00", mime_type="image/png")
    response = types.FunctionResponse(id="c1", name="shoot", response={"output": "done"}, parts=[pixels])
    call = types.FunctionCall(id="c1", name="shoot", args={"lens": None})
    content = [
        types.Content(role="model", parts=[types.Part(function_call=call, thought_signature=b"\xfb\xff")]),
        types.Content(role="user", parts=[types.Part(function_response=response)]),
    ]
    for by_alias in (False, True):
        called, answered = (from_google(each.model_dump(mode="json", by_alias=by_alias)) for each in content)
        _, again = to_google([called]).contents  # before it, a user says that the conversation begins with an answer
        assert types.Content.model_validate(again) == content[0]
        assert answered == message_of(
            "tool", tool_result("c1", [text("done"), image("+/8A", "image/png")]), tool_name="shoot"
        )


def test_google_calls_without_ids_are_paired_with_their_responses() -> None:
    calls = [{"functionCall": {"name": name, "args": {"userName": 1}}} for name in ("a.b", "c", "a.b")]
    answers = [{"functionResponse": {"name": name, "response": {"output": "x"}}} for name in ("c", "a.b", "a.b")]
    called = from_google({"role": "model", "parts": calls}, prefix="turn3")
    answered = from_google({"role": "function", "parts": answers}, prefix="turn3")
    assert called == message_of(
        "assistant",
        tool_use("turn3_a_b_1", "a.b", {"userName": 1}),
        tool_use("turn3_c_1", "c", {"userName": 1}),
        tool_use("turn3_a_b_2", "a.b", {"userName": 1}),
    )
    assert answered == message_of(
        "tool", *(tool_result(name, "x") for name in ("turn3_c_1", "turn3_a_b_1", "turn3_a_b_2"))
    )
    contents = to_google([called, answered]).contents
    parts: Any = contents[2]["parts"]
    assert [part["function_response"]["name"] for part in parts] == ["c", "a.b", "a.b"]


@pytest.mark.parametrize(
    ("response", "content", "is_error"),
    [
        ({"output": "x"}, "x", False),
        ({"error": "x"}, "x", True),
        ({"output": {"deep": [1]}}, '{"output":{"deep":[1]}}', False),
        ({"result": "x"}, '{"result":"x"}', False),
        ({"output": "x", "error": "y"}, '{"output":"x","error":"y"}', False),
        ({}, "", False),
        (None, "", False),
    ],
)
def test_a_google_function_response_is_read_as_a_tool_result(response: object, content: str, is_error: bool) -> None:
    part = {"function_response": {"id": "c1", "name": "ls", "response": response}}
    found = from_google({"role": "user", "parts": [part]})
    assert found == message_of("tool", tool_result("c1", content, is_error=is_error), tool_name="ls")


def test_google_roles_alternate_and_responses_come_together() -> None:
    shot = image("QUJD", "image/png")
    prompt = to_google(
        [
            message_of("system", text("Be brief.")),
            message_of("user", text(" ")),
            message_of("assistant", tool_use("c1", "ls"), ThinkingPart(Thinking("", "x", redacted=True)), shot),
            message_of("tool", tool_result("c1", [text("a"), shot])),
            message_of("tool", tool_result("c2", "b"), tool_name="cat"),
            message_of("tool", tool_result("c3", "b")),
            message_of("assistant"),
            message_of("user", text("Go on.")),
        ]
    )
    shown: Block = {"inline_data": {"mime_type": "image/png", "data": "QUJD"}}
    assert prompt == GooglePrompt(
        {"parts": [{"text": "Be brief."}]},
        [
            {"role": "user", "parts": [{"text": " "}]},
            {"role": "model", "parts": [{"function_call": {"id": "c1", "name": "ls", "args": {}}}, shown]},
            {
                "role": "user",
                "parts": [
                    {"function_response": {"id": "c1", "name": "ls", "response": {"output": "a"}}},
                    {"function_response": {"id": "c2", "name": "cat", "response": {"output": "b"}}},
                    {"function_response": {"id": "c3", "name": "c3", "response": {"output": "b"}}},
                    {"text": "Go on."},
                    shown,
                ],
            },
        ],
    )


# -- content that cannot be held


Reader = Callable[[Mapping[str, object]], Message]
FILE = {"type": "document", "source": {"type": "text", "data": "x"}}
WORD = {"type": "text", "text": "a"}
RESULT: dict[str, Any] = {"type": "tool_result", "tool_use_id": "t"}
PART = "$.parts[0].function_response.parts[0]"


def response(*parts: object) -> dict[str, object]:
    return {"parts": [{"functionResponse": {"name": "ls", "parts": [*parts]}}]}


@pytest.mark.parametrize(
    ("read", "given_message", "place"),
    [
        (from_openai, {"role": "user", "content": [WORD, {"type": "input_audio"}]}, "$.content[1]"),
        (from_openai, {"role": "user", "content": [{"type": "file", "file": {}}]}, "$.content[0]"),
        (from_openai, {"role": "user", "content": 7}, "$.content"),
        (from_openai, {"role": "user", "content": [{"type": "text"}]}, "$.content[0]"),
        (from_openai, {"role": "assistant", "audio": {"id": "a"}}, "$.audio"),
        (from_openai, {"role": "assistant", "function_call": {"name": "ls"}}, "$.function_call"),
        (from_openai, {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}, "$.tool_calls[0]"),
        (from_openai, {"role": "function", "content": "x"}, "$.role"),
        (from_openai, {"role": "tool", "content": "x"}, "$.tool_call_id"),
        (from_openai, {"content": "x"}, "`role`"),
        (from_anthropic, {"role": "user", "content": [FILE]}, "$.content[0]"),
        (from_anthropic, {"role": "user", "content": [FILE | {"type": "image"}]}, "$.content[0].source"),
        (from_anthropic, {"role": "user", "content": [RESULT | {"content": ["x", FILE]}]}, "$.content[0].content[0]"),
        (from_anthropic, {"role": "assistant", "content": [{"type": "server_tool_use"}]}, "$.content[0]"),
        (from_anthropic, {"role": "tool", "content": []}, "$.role"),
        (from_anthropic, {"role": "user"}, "`content`"),
        (from_google, {"parts": [{"text": "a"}, {"executable_code": {"code": "1"}}]}, "$.parts[1]"),
        (
            from_google,
            {"parts": [{"inlineData": {"mimeType": "a/wav", "data": "x"}}]},
            "$.parts[0].inline_data.mime_type",
        ),
        (
            from_google,
            {"parts": [{"fileData": {"mimeType": "v/mp4", "fileUri": "u"}}]},
            "$.parts[0].file_data.mime_type",
        ),
        (from_google, {"parts": [{"text": "a", "functionCall": {"name": "ls"}}]}, "$.parts[0]"),
        (from_google, response({}, {"fileData": {"fileUri": "a.pdf"}}), PART),
        (from_google, response({"fileData": {"mimeType": "a/b", "fileUri": "c"}}), f"{PART}.file_data.mime_type"),
        (from_google, {"parts": [{}]}, "$.parts[0]"),
        (from_google, {"role": "assistant", "parts": []}, "$.role"),
        (from_google, {"role": "user"}, "`parts`"),
    ],
)
def test_content_that_a_message_cannot_hold_is_refused_with_its_place(
    read: Reader,
    given_message: Any,  # noqa: ANN401
    place: str,
) -> None:
    with pytest.raises(InvalidEntry) as caught:
        read(given_message)
    assert place in str(caught.value)


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', '{"a":NaN}', "[" * 100_000])
def test_arguments_that_are_not_an_object_are_refused_with_their_place(arguments: str) -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": arguments}}]
    with pytest.raises(InvalidEntry, match=r"at `\$\.tool_calls\[0\]\.function\.arguments`"):
        from_openai({"role": "assistant", "tool_calls": calls})


# -- messages with roles that providers do not have


def rendered_text(given_message: Message) -> str:
    found = rendered(given_message)
    assert found is not None
    assert found.role == "user"
    [part] = found.content
    assert isinstance(part, TextPart)
    return part.text.content


def bash_message(command: str, output: str = "", **fields: object) -> Message:
    make: Any = BashExecution
    return message_of("bashExecution", bash=make(command, output, **fields))


def test_summaries_are_rendered_as_in_pi() -> None:
    assert rendered_text(message_of("branchSummary", text("They tried."))) == (
        "The following is a summary of a branch that this conversation came back from:\n\n"
        "<summary>\nThey tried.</summary>"
    )
    assert rendered_text(message_of("compactionSummary", text("They met."), text("They left."))) == (
        "The conversation history before this point was compacted into the following summary:\n\n"
        "<summary>\nThey met.\nThey left.\n</summary>"
    )


@pytest.mark.parametrize(
    ("execution", "expected"),
    [
        (bash_message("ls", "a\nb"), "Ran `ls`\n```\na\nb\n```"),
        (bash_message("true"), "Ran `true`\n(no output)"),
        (bash_message("false", exit_code=1), "Ran `false`\n(no output)\n\nCommand exited with code 1"),
        (bash_message("ls", "a", exit_code=0), "Ran `ls`\n```\na\n```"),
        (bash_message("sleep 9", exit_code=130, cancelled=True), "Ran `sleep 9`\n(no output)\n\n(command cancelled)"),
        (
            bash_message("yes", "y", exit_code=2, truncated=True, full_output_path="/tmp/o"),
            "Ran `yes`\n```\ny\n```\n\nCommand exited with code 2\n\n[Output truncated. Full output: /tmp/o]",
        ),
        (bash_message("yes", "y", truncated=True), "Ran `yes`\n```\ny\n```"),
        (bash_message("yes", "y", full_output_path="/tmp/o"), "Ran `yes`\n```\ny\n```"),
        (message_of("bashExecution", text("as it is")), "as it is"),
    ],
)
def test_bash_executions_are_rendered_as_in_pi(execution: Message, expected: str) -> None:
    assert rendered_text(execution) == expected


def test_messages_of_known_roles_are_rendered_except_excluded_executions() -> None:
    for role in ROLES:
        given_message = message_of(role, text("a"))
        found = rendered(given_message)
        assert found is not None
        assert (found is given_message) == (role in {"user", "assistant", "tool", "system"})
    assert rendered(message_of("asistant", text("a"))) is None
    assert rendered(bash_message("env", "SECRET=1", exclude_from_context=True)) is None


def test_a_developer_message_is_rendered_as_a_system_message() -> None:
    developer = message_of("developer", text("Be brief."))
    assert rendered(developer) == message_of("system", text("Be brief."))
    assert to_openai([developer]) == [{"role": "system", "content": "Be brief."}]
    assert to_anthropic([developer]).system == [{"type": "text", "text": "Be brief."}]


def test_custom_messages_and_images_of_summaries_are_rendered() -> None:
    shot = image("QUJD", "image/png")
    assert rendered(message_of("custom", text("a"), shot, custom_type="mine")) == message_of("user", text("a"), shot)
    found = rendered(message_of("branchSummary", shot, text("a")))
    assert found is not None
    assert isinstance(found.content[1], ImagePart)


def test_an_image_that_is_stored_elsewhere_is_replaced_by_a_note() -> None:
    elsewhere = image("blob:sha256:" + "0a" * 32, "image/png")
    messages = [
        message_of("user", text("See"), elsewhere, image("QUJD", "image/png")),
        message_of("assistant", tool_use("c1", "look", {})),
        message_of("tool", tool_result("c1", [elsewhere])),
    ]
    for sent in (to_openai(messages), to_anthropic(messages).messages, to_google(messages).contents):
        encoded = json.dumps(sent)
        assert (encoded.count("[image: image/png]"), encoded.count("QUJD"), "blob:" in encoded) == (2, 1, False)


def test_the_image_of_a_data_url_is_sent_as_its_data() -> None:
    drawn = image("data:image/svg+xml,%3Csvg/%3E", "image/svg+xml", kind="url")
    linked = message_of("user", image("data:image/png;base64,QUJD", "image/*", kind="url"), drawn)
    inline = message_of("user", image("QUJD", "image/png"), text("[image: image/svg+xml]"))
    assert to_google([linked]) == to_google([inline])
    assert to_anthropic([linked]) == to_anthropic([inline])


def test_thinking_at_the_end_of_a_turn_is_not_sent_to_anthropic() -> None:
    thought = thinking("Hm", signature="signed")
    sealed = ThinkingPart(Thinking("", "sealed", redacted=True))
    question, next_question = message_of("user", text("Why?")), message_of("user", text("Are you there?"))
    cut_off = message_of("assistant", thought, sealed)
    asked = to_anthropic([question, cut_off, next_question]).messages
    assert asked == [{"role": "user", "content": [{"type": "text", "text": t} for t in ("Why?", "Are you there?")]}]
    assert [turn["role"] for turn in to_anthropic([question, cut_off]).messages] == ["user"]
    answers = [message_of("assistant", thought, text("So"), sealed), message_of("assistant", thought, text("it is"))]
    for answer, types in [
        (answers[:1], ["thinking", "text"]),
        (answers, ["thinking", "text", "redacted_thinking", "thinking", "text"]),
    ]:
        turn = to_anthropic([question, *answer, next_question]).messages[1]
        assert [block["type"] for block in cast("list[Block]", turn["content"])] == types
    parts = cast("list[Block]", to_google([question, cut_off]).contents[1]["parts"])
    assert [part["thought"] for part in parts] == [True]


SEALED_CALL = ToolUsePart(ToolUse("c1", "ls", raw_json({}), "sealed"))


@pytest.mark.parametrize(
    ("provider", "kept"), [("openai", False), ("google", False), ("anthropic", True), ("proxy", False), (None, True)]
)
def test_thinking_that_another_provider_signed_is_not_sent_to_anthropic(provider: str | None, kept: bool) -> None:
    sealed = ThinkingPart(Thinking("", "sealed", redacted=True))
    answer = message_of("assistant", thinking("Hm", signature="signed"), sealed, text("So"), provider=provider)
    found = [cast("list[Block]", turn["content"]) for turn in to_anthropic([answer]).messages]
    assert [block["type"] for block in found[1]] == ["thinking", "redacted_thinking", "text"][0 if kept else 2 :]
    named = to_anthropic([answer], provider="proxy").messages[1]
    assert len(cast("list[Block]", named["content"])) == (3 if provider in {"proxy", None} else 1)


@pytest.mark.parametrize(
    ("provider", "kept"), [("openai", False), ("anthropic", False), ("google", True), ("vertex", False), (None, True)]
)
def test_what_another_provider_signed_is_not_sent_to_google(provider: str | None, kept: bool) -> None:
    parts = (thinking("Hm", signature="signed"), TextPart(Text("So", "sealed")), SEALED_CALL)
    answer = message_of("assistant", *parts, provider=provider)
    found = cast("list[Block]", to_google([answer]).contents[1]["parts"])
    assert [block.get("thought_signature") for block in found] == (
        ["signed", "sealed", "sealed"] if kept else [None, UNSIGNED]
    )
    named = cast("list[Block]", to_google([answer], provider="vertex").contents[1]["parts"])
    assert len(named) == (3 if provider in {"vertex", None} else 2)


@pytest.mark.parametrize("provider", ["anthropic", "google", None])
def test_google_gets_a_placeholder_for_the_signature_of_the_first_call_of_each_answer_in_the_current_turn(
    provider: str | None,
) -> None:
    def step(*names: str) -> list[Message]:
        calls = message_of("assistant", *(tool_use(name, "ls") for name in names), provider=provider)
        return [calls, message_of("tool", *(tool_result(name, "x") for name in names), tool_name="ls")]

    sealed = message_of("assistant", SEALED_CALL, provider="google")
    answered = message_of("tool", tool_result("c1", "x"))
    messages = [
        message_of("user", text("Look.")),
        *step("a", "b"),
        message_of("assistant", text("So."), provider=provider),
        message_of("user", text("Again.")),
        *step("c", "d"),
        sealed,
        answered,
        *step("e"),
        message_of("user", image("QUJD", "image/png")),
        *step("f"),
    ]
    signatures = {
        part["function_call"]["id"]: part.get("thought_signature")
        for content in to_google(messages).contents
        for part in cast("list[dict[str, Any]]", content["parts"])
        if "function_call" in part
    }
    of_earlier_turns, later_in_an_answer = {"a": None, "b": None}, {"d": None}
    expected = {"c": UNSIGNED, "c1": "sealed", "e": UNSIGNED, "f": UNSIGNED}
    assert signatures == of_earlier_turns | later_in_an_answer | expected


def test_the_library_of_google_sends_a_placeholder_for_a_signature_as_it_is() -> None:
    types = pytest.importorskip("google.genai.types")
    _, called = to_google([message_of("user", text("Look.")), message_of("assistant", tool_use("c1", "ls"))]).contents
    dumped = types.Content.model_validate(called).model_dump(mode="json", exclude_none=True)
    assert [part["thought_signature"] for part in dumped["parts"]] == [UNSIGNED]


@pytest.mark.parametrize("placeholder", ["skip_thought_signature_validator", "context_engineering_is_the_way_to_go"])
@pytest.mark.parametrize("is_encoded", [False, True])
def test_a_placeholder_for_a_signature_of_google_is_read_as_no_signature(placeholder: str, is_encoded: bool) -> None:
    signature = b64encode(placeholder.encode()).decode() if is_encoded else placeholder
    part = {"functionCall": {"id": "c1", "name": "ls"}, "thoughtSignature": signature}
    assert from_google({"role": "model", "parts": [part]}) == message_of("assistant", tool_use("c1", "ls"))


@given(st.lists(strategies.messages(), max_size=6))
def test_any_messages_can_be_converted_to_every_provider(messages: Sequence[Message]) -> None:
    assert {message.role for message in messages} <= ROLES
    openai, anthropic, google = to_openai(messages), to_anthropic(messages), to_google(messages)
    json.dumps([openai, anthropic, google])
    for block in openai:
        from_openai(block)
    for turn in anthropic.messages:
        from_anthropic(turn)
    for content in google.contents:
        from_google(content)
    for turns in ([turn["role"] for turn in anthropic.messages], [turn["role"] for turn in google.contents]):
        assert all(one != other for one, other in pairwise(turns))
    secret = [message for message in messages if message.bash and message.bash.exclude_from_context]
    assert to_openai(secret) == []
