"""What is read out of expressions."""

from __future__ import annotations

import pytest

from tests.deploy.promql import Selector, grouping_labels, selectors


def test_names_and_labels_of_an_expression() -> None:
    rate = 'rate(a_total{x="1", y!~"b(c)|sum"}[$__rate_interval])'
    text = f"topk(10, sum by (instance, le) ({rate})) > 2 * up and on (job) c:d or vector(0)"
    assert selectors(text) == [
        Selector("a_total", {"x": "1", "y": "b(c)|sum"}),
        Selector("up", {}),
        Selector("c:d", {}),
    ]
    assert grouping_labels(text) == {"instance", "le", "job"}


@pytest.mark.parametrize("text", ["sum(a", 'a{x="1"', "a{x=1}", "rate(a)", "nonsense(a)"])
def test_what_is_no_expression(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        selectors(text)
