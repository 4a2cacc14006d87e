"""Answers in JSON of a schema: what is asked of a server that knows schemas and of one that does not, what is believed,
and how many tokens that may take."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_server import PlannedResponse, Server, encode_event, make_refusal, stream_answer

from kvstore import errors
from kvstore.models import json_schema
from kvstore.models.json_schema import parse_longest_prefix
from kvstore.models.llm import LanguageModel, open_language_model
from kvstore.models.quoting import Quotation
from kvstore.models.structured import StructuredModel, StructuredPrompt
from kvstore.models.token_estimate import estimate_message_tokens, token_estimate
from kvstore.settings import SessionSettings

SCHEMA = {
    "type": "object",
    "properties": {
        "units": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1, "maxItems": 3},
        "rating": {"type": "integer", "minimum": 0, "maximum": 10},
    },
    "required": ["units"],
    "additionalProperties": False,
}
MESSAGES = [{"role": "system", "content": "Write units."}, {"role": "user", "content": "Tea is made from leaves."}]
GOOD = {"units": ["Tea is made from leaves."]}


def make_prompt(check: Any = lambda value: value["units"]) -> StructuredPrompt[list[str]]:
    return StructuredPrompt("units", MESSAGES, SCHEMA, check)


@pytest.fixture
def model(server: Server) -> LanguageModel:
    language_model = open_language_model(None, SessionSettings())
    assert language_model is not None
    return language_model


def test_the_schema_is_sent_and_the_value_returned(server: Server, model: LanguageModel) -> None:
    server.planned_responses = [stream_answer(json.dumps(GOOD))]
    structured = StructuredModel(model)
    assert structured.ask(make_prompt()) == ["Tea is made from leaves."]
    (request,) = server.requests
    assert request["messages"] == MESSAGES
    assert request["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "units", "strict": True, "schema": SCHEMA},
    }
    assert (structured.num_calls, structured.sent_tokens) == (1, make_prompt().tokens)
    assert structured.sent_tokens >= estimate_message_tokens(MESSAGES) + token_estimate(json.dumps(SCHEMA))
    assert structured.written_tokens == token_estimate(json.dumps(GOOD))


def test_a_server_without_schemas_gets_the_schema_as_text_from_then_on(server: Server, model: LanguageModel) -> None:
    refused = [make_refusal(400, "response_format is not supported"), make_refusal(422, "unknown field")]
    server.planned_responses = [*refused, stream_answer(json.dumps(GOOD)), stream_answer(json.dumps(GOOD))]
    structured = StructuredModel(model)
    assert structured.ask(make_prompt()) == structured.ask(make_prompt()) == GOOD["units"]
    formats = [(request.get("response_format") or {}).get("type") for request in server.requests]
    assert formats == ["json_schema", "json_object", None, None]
    system, user = server.requests[-1]["messages"]
    assert system == MESSAGES[0] and user["content"].startswith("Tea is made from leaves.\n\nAnswer with JSON")
    assert json.dumps(SCHEMA) in user["content"]
    assert (structured.num_calls, structured.sent_tokens) == (2, 2 * make_prompt().tokens)


def test_a_request_refused_in_every_form_is_an_error_and_is_retried_later(server: Server, model: LanguageModel) -> None:
    server.planned_responses = [make_refusal(400, f"too long {number}") for number in range(3)] + [
        stream_answer(json.dumps(GOOD))
    ]
    structured = StructuredModel(model)
    with pytest.raises(errors.ModelError, match="status 400: too long 0"):
        structured.ask(make_prompt())
    assert (structured.num_calls, structured.sent_tokens) == (0, 0)
    assert structured.ask(make_prompt()) == GOOD["units"]
    assert server.requests[-1]["response_format"]["type"] == "json_schema"
    server.planned_responses = [make_refusal(401, "no key")]
    with pytest.raises(errors.ModelError, match="status 401"):
        structured.ask(make_prompt())
    assert server.planned_responses == []


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("I cannot do that.", "there is no JSON in the answer"),
        ('{"units": ["a"', "the answer is not JSON"),
        ('["a"]', "the answer must be of type object, not array"),
        ("{}", "the answer has no field 'units'"),
        ('{"units": "a"}', "the answer.units must be of type array, not string"),
        ('{"units": ["a", 1]}', r"the answer.units\[1\] must be of type string, not integer"),
        ('{"units": [""]}', "has 0 characters; it must have at least 1"),
        ('{"units": []}', "has 0 entries; it must have at least 1"),
        ('{"units": ["a", "b", "c", "d"]}', "has 4 entries; it must have at most 3"),
        ('{"units": ["a"], "x": 1}', "has a field 'x' that the schema does not have"),
        ('{"units": ["a"], "rating": 11}', "the answer.rating must be between 0 and 10, not 11"),
        ('{"units": ["a"], "rating": true}', "the answer.rating must be of type integer, not boolean"),
        ('{"units": ["a"], "rating": NaN}', "NaN is not a JSON number"),
        ('{"units": ["not said"]}', "'not said' is not in the text"),
        ("", "there is no JSON in the answer"),
        ("".join(f'{{"k{number}":' for number in range(50_000)), "nested too deeply"),
    ],
)
def test_an_invalid_reply_is_corrected_once_and_never_accepted(
    server: Server, model: LanguageModel, answer: str, message: str
) -> None:
    def check_units(value: Any) -> Any:
        if value["units"] == ["not said"]:
            raise ValueError("'not said' is not in the text")
        return value["units"]

    server.planned_responses = [stream_answer(answer), stream_answer(json.dumps(GOOD))]
    structured = StructuredModel(model)
    assert structured.ask(make_prompt(check_units)) == GOOD["units"]
    first, second = server.requests
    assert second["messages"][0] == first["messages"][0]
    assert (first["temperature"], second["temperature"], first["max_tokens"]) == (0, 0.7, 2000)
    correction, _, content = second["messages"][1]["content"].rpartition("Answer with JSON of the schema.\n\n")
    assert content == first["messages"][1]["content"] and re.search(message, correction)
    server.planned_responses = [stream_answer(answer), stream_answer(answer)]
    with pytest.raises(errors.InvalidAnswerError, match=message) as caught:
        structured.ask(make_prompt(check_units))
    assert str(caught.value).startswith("language model 'tiny': no usable answer for 'units'")
    assert structured.num_calls == 4


@pytest.mark.parametrize(
    ("reply", "unit"), [("\\ud83d\\ude00", "😀"), ("\\ud83d", "\ufffd"), ("\\ude00\\ud83d.", "\ufffd\ufffd.")]
)
def test_halves_of_a_surrogate_pair_are_joined_or_replaced(
    server: Server, model: LanguageModel, reply: str, unit: str
) -> None:
    server.planned_responses = [stream_answer(f'{{"units": ["{reply}"], "rating": 3}}')]
    structured = StructuredModel(model)
    assert structured.ask(make_prompt(lambda value: value)) == {"units": [unit], "rating": 3}
    assert structured.num_calls == 1


@pytest.mark.parametrize(
    "dress", ["```json\n{}\n```", "Here it is:\n{}\nI hope this helps.", "<think>Hm, {{}}</think>{}", "  {}  "]
)
def test_words_around_the_json_are_no_matter(server: Server, model: LanguageModel, dress: str) -> None:
    server.planned_responses = [
        stream_answer(dress.replace("{}", json.dumps(GOOD)).replace("{{", "").replace("}}", ""))
    ]
    assert StructuredModel(model).ask(make_prompt()) == GOOD["units"]


def test_a_cut_answer_is_asked_for_in_fewer_words(server: Server, model: LanguageModel) -> None:
    cut = encode_event({"choices": [{"delta": {"content": '{"units": ["Tea'}, "finish_reason": "length"}]})
    server.planned_responses = [PlannedResponse([cut]), stream_answer(json.dumps(GOOD))]
    assert StructuredModel(model).ask(make_prompt()) == GOOD["units"]
    assert "the token limit ended the answer: answer in fewer words" in server.requests[1]["messages"][-1]["content"]


def test_a_loop_is_refused(server: Server, model: LanguageModel) -> None:
    server.planned_responses = [
        stream_answer('{"units": ["' + "a b c d e " * 50 + '"]}'),
        stream_answer(json.dumps(GOOD)),
    ]
    structured = StructuredModel(model)
    assert structured.ask(make_prompt()) == GOOD["units"] and structured.num_refused == 1
    assert "the answer repeats itself" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"units": ["Tea is red.", "Milk i', ["Tea is red."]),
        ('{"units": ["Tea is red.", "Milk is white. It i', ["Tea is red.", "Milk is white."]),
        ('{"units": ["Tea is {red}, and [so].", "Milk"], "rat', ["Tea is {red}, and [so].", "Milk"]),
        ('{"units": ["Tea is \\"red', None),
        ('{"un', None),
        ("Tea is red.", None),
    ],
)
def test_the_valid_beginning_of_an_unfinished_answer_is_used(text: str, expected: list[str] | None) -> None:
    if expected is None:
        with pytest.raises(ValueError, match="no part of the answer is complete"):
            parse_longest_prefix(text, SCHEMA)
    else:
        assert parse_longest_prefix(text, SCHEMA) == {"units": expected}


def test_the_second_attempt_counts_toward_the_token_limit(server: Server, model: LanguageModel) -> None:
    size = make_prompt().tokens
    server.planned_responses = [stream_answer(json.dumps(GOOD)), stream_answer("no")]
    structured = StructuredModel(model, max_tokens=3 * size - 1)
    structured.ask(make_prompt())
    with pytest.raises(errors.InvalidAnswerError):  # not asked for again: that would be too much
        structured.ask(make_prompt())
    with pytest.raises(errors.TokenLimitError, match=f"{2 * size:,} of {3 * size - 1:,} tokens have been used"):
        structured.ask(make_prompt())
    assert len(server.requests) == 2
    assert structured.sent_tokens == 2 * size


def test_the_token_count_of_the_server_counts_if_it_is_higher(server: Server, model: LanguageModel) -> None:
    def make_reply(sent: int, received: int) -> PlannedResponse:
        usage = encode_event({"choices": [], "usage": {"prompt_tokens": sent, "completion_tokens": received}})
        return stream_answer(json.dumps(GOOD), end=usage)

    server.planned_responses = [make_reply(10_000, 500), make_reply(1, 1)]
    structured = StructuredModel(model)
    structured.ask(make_prompt())
    assert (structured.sent_tokens, structured.written_tokens) == (10_000, 500)
    structured.ask(make_prompt())
    assert structured.sent_tokens == 10_000 + make_prompt().tokens


def test_a_server_that_is_down_is_no_invalid_answer(server: Server, model: LanguageModel) -> None:
    server.planned_responses = [make_refusal(503, "busy")] * 3
    with pytest.raises(errors.ModelUnavailableError, match="busy") as caught:
        StructuredModel(model).ask(make_prompt())
    assert not isinstance(caught.value, errors.InvalidAnswerError)


def test_a_schema_has_the_keywords_that_are_known() -> None:
    with pytest.raises(ValueError, match="unsupported keywords: pattern"):
        StructuredPrompt("x", MESSAGES, {"type": "array", "items": {"type": "string", "pattern": "a"}})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_any_json_reply_is_parsed(value: Any) -> None:
    wrapped = {"value": value}
    try:
        json.dumps(wrapped, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return
    for dress in ("{}", "so: {} that", "```\n{}\n```"):
        assert json_schema.parse_json(dress.replace("{}", json.dumps(wrapped), 1)) == wrapped
    json_schema.check_value(wrapped, {"type": "object", "properties": {"value": {}}})


@given(st.lists(st.text(alphabet="0123456789abcdef<>\n", max_size=40), max_size=5))
def test_no_text_ends_its_quotation(texts: list[str]) -> None:
    quotation = Quotation(texts)
    assert all(quotation.quote(text).count(quotation.mark) == 2 for text in texts)
    assert quotation.mark in quotation.rule
