"""The list of models through the official Python client."""

from __future__ import annotations

import openai
import pytest
from openai.types import Model

DEFAULT = "smollm2-135m-instruct"


def test_the_model_is_listed_as_the_client_declares(client: openai.OpenAI) -> None:
    models = list(client.models.list())
    for model in models:
        Model.model_validate(model.to_dict(), strict=True)
    assert DEFAULT in [model.id for model in models]


def test_a_model_is_found_by_its_id(client: openai.OpenAI) -> None:
    model = client.models.retrieve(DEFAULT)
    assert (model.id, model.object) == (DEFAULT, "model")


def test_a_model_that_is_not_there_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("none/such model")
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("name", [DEFAULT, "default", "local", ""])
def test_an_answer_says_which_model_gave_it(client: openai.OpenAI, name: str) -> None:
    answer = client.completions.create(model=name, prompt="Hi", max_tokens=1)
    assert answer.model == DEFAULT
