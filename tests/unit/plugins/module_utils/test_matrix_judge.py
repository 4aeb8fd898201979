"""What tells a wrong backend from a correct one that rounds otherwise."""

from __future__ import annotations

import random
from typing import Any

from ansible_collections.blackwell.sglang.plugins.module_utils import _matrix_judge

LENGTHS = (64, 1024, 2048, 3072, 4096)


def answers(seed: int = 0, noise: float = 0.0, flips: float = 0.0) -> list[dict[str, Any]]:
    """Answers of a correct backend; ``noise`` on log-probabilities, ``flips`` of near ties."""
    chance = random.Random(seed)
    model = random.Random(42)
    found = []
    probes = [f"M={length}/{number}" for length in LENGTHS for number in (1, 2, 3)] + [f"burst/{n}" for n in range(64)]
    for probe in probes:
        ids = [model.randrange(1, 99999) for _rest in range(8)]
        sure = model.random() < 0.5
        logprob = -0.05 if sure else -1.0
        if not sure and chance.random() < flips:
            ids = [chance.randrange(1, 99999) for _rest in range(8)]
        found.append(
            {
                "probe": probe,
                "ids": ids,
                "logprobs": [logprob + chance.gauss(0, noise) for _rest in ids],
                "prompt_logprob": -2.4 + chance.gauss(0, noise),
                "faults": [],
                "loops": [],
                "lost": "",
            }
        )
    return found


def spoiled(members: list[dict[str, Any]], group: str, **changes: Any) -> list[dict[str, Any]]:
    """The answers with those of one group changed."""
    return [{**each, **changes} if each["probe"].startswith(group) else each for each in members]


def test_rounding_and_near_ties_are_no_fault() -> None:
    for seed in range(20):
        assert _matrix_judge.against(answers(seed, noise=0.05, flips=0.3), answers()) == []


def test_other_words_at_one_length_alone() -> None:
    lines = _matrix_judge.against(spoiled(answers(), "M=3072", ids=[7] * 8), answers())
    assert lines == ["M=3072: all 3 answers begin otherwise than the reference's, unlike other lengths"]


def test_a_prompt_that_became_unlikely_at_one_length() -> None:
    lines = _matrix_judge.against(spoiled(answers(), "M=2048", prompt_logprob=-11.0), answers())
    assert lines == ["M=2048: the prompt is 8.6 nats a token less likely than under the reference"]


def test_other_words_under_load_alone() -> None:
    lines = _matrix_judge.against(spoiled(answers(), "burst", ids=[7] * 8), answers())
    assert any(line.startswith("burst: 64 of 64") for line in lines)


def test_a_few_loops_under_load_that_the_reference_has_not() -> None:
    few = spoiled(answers(), "burst/63", loops=["a loop"])
    assert _matrix_judge.against(few, answers()) == []
    some = spoiled(answers(), "burst/6", loops=["a loop"])  # 6 and 60 to 63: too few for the rule without a reference
    assert _matrix_judge.own_faults(some) == []
    assert _matrix_judge.against(some, answers()) == ["burst: 5 of 64 answers are loops where the reference's are none"]
    assert _matrix_judge.against(some, some) == []


def test_another_model_altogether() -> None:
    other = [{**each, "ids": [5] * 8} for each in answers()]
    assert any("of which the reference is sure" in line for line in _matrix_judge.against(other, answers()))


def test_numbers_that_are_none_count_at_once_and_single_loops_do_not() -> None:
    bad = spoiled(answers(), "M=1024/2", faults=["16 of 16 log-probabilities are null"])
    assert _matrix_judge.own_faults(bad) == ["M=1024: 1 of 3 answers: 16 of 16 log-probabilities are null"]
    once = spoiled(answers(), "M=1024/2", loops=["a loop"])
    assert _matrix_judge.own_faults(once) == []
    twice = spoiled(once, "M=1024/3", loops=["a loop"])
    assert _matrix_judge.own_faults(twice) == ["M=1024: 2 of 3 answers: a loop"]


def test_some_loops_of_many_at_once_are_a_race() -> None:
    few = spoiled(answers(), "burst/1", loops=["a loop"])  # 1 and 10 to 19: eleven of 64
    assert _matrix_judge.own_faults(few) == ["burst: 11 of 64 answers: a loop"]
    assert _matrix_judge.own_faults(spoiled(answers(), "burst/63", loops=["a loop"])) == []


def test_the_majority_is_the_reference_and_a_wish_counts_if_it_is_sound() -> None:
    wrong = [{**each, "ids": [5] * 8} for each in answers()]
    entries = [
        {"id": "odd", "verdict": "ok", "answers": wrong},
        {"id": "one", "verdict": "ok", "answers": answers(1, 0.05, 0.1)},
        {"id": "two", "verdict": "ok", "answers": answers(2, 0.05, 0.1)},
        {"id": "nan", "verdict": "wrong", "answers": answers()},
    ]
    name, why = _matrix_judge.choose_reference(entries)
    assert name in ("one", "two")
    assert why == "2 of 3 sound combinations agree with it"
    assert _matrix_judge.choose_reference(entries, "two")[0] == "two"
    name, why = _matrix_judge.choose_reference(entries, "nan")
    assert name in ("one", "two")
    assert why.startswith("nan did not answer without a fault")
    assert _matrix_judge.choose_reference(entries[3:]) == (None, "no combination answered without a fault")
