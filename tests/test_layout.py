"""The language of layouts: what each of its words accepts and refuses, and how an error names the place."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from sksvi._runtime.layout import Malformed, check, rule

TABLE = np.ones((2, 3))


def of(**parts):
    return SimpleNamespace(**parts)


@pytest.mark.parametrize(
    ("layout", "value"),
    [
        ("a (n,D) f; b (D) f", of(a=TABLE, b=np.ones(3))),
        ("a (…,D) f; b (…,D,D) f diag>0", of(a=TABLE, b=np.ones((2, 3, 3)))),
        ("a (k,…) f; b (…) f", of(a=TABLE, b=np.ones(3))),
        ("a (F) f; b (F~) f; c (F^) f", of(a=np.ones(3), b=np.ones(6), c=np.ones(9))),
        ("full flag full; a (F) f; b (F~) f", of(full=False, a=np.ones(3), b=np.ones(3))),
        ("a (n) f; b (n|n+1) f; c (>=n) f", of(a=np.ones(2), b=np.ones(3), c=np.ones(4))),
        ("a (n) i <n distinct; b (n+1) i cuts e; c (e) x", of(a=np.arange(2), b=np.array([0, 1, 4]), c=np.ones(4))),
        ("a (_) i ?<2", of(a=np.array([-1, 1]))),
        ("a count n >=1 <=3; b items n; b[*] number >0", of(a=2, b=(1, 0.5))),
        ("a? (n) f; b.c? (n) f; b.d.e? flag", of(a=None, b=of(c=None))),
        ("a.x (n) f; a.y[1] (n) f", of(a={"x": np.ones(2), "y": [None, np.ones(2)]})),
        ("a[*] (n) f", of(a={"x": np.ones(2), "y": np.ones(3)})),
        ("a (_) f rising or no array", of(a="auto")),
        ("a labels n; b text; c SimpleNamespace/dict", of(a=np.array(["x", "y"], object), b="", c=of())),
        ("a (n) f where n == self.b and np.all(it < 2)", of(a=np.ones(2), b=2)),
    ],
)
def test_what_fits_a_layout_passes(layout, value):
    check(value, layout)


@pytest.mark.parametrize(
    ("layout", "value", "message"),
    [
        ("a (n,D) f; b (D) f", of(a=TABLE, b=np.ones(2)), r"^q\.b has shape \(2,\), not \(3,\)$"),
        ("a (…,D) f; b (…,D,D) f", of(a=TABLE, b=np.ones((1, 3, 3))), r"b has shape \(1, 3, 3\), not \(2, 3, 3\)"),
        ("a (k,…) f; b (…) f", of(a=TABLE, b=np.ones(2)), r"b has shape \(2,\), not \(3,\)"),
        ("a (…,D,D) f", of(a=np.ones(3)), r"a has shape \(3,\), not \(any, any, any\)"),
        ("a (F) f; b (F~) f", of(a=np.ones(3), b=np.ones(3)), r"not \(6,\)"),
        ("a (n) f; b (n|n+1) f", of(a=np.ones(2), b=np.ones(4)), r"not \(2 or 3,\)"),
        ("a (_) f", of(a=np.ones(2, np.float32)), "a has dtype float32, not float64"),
        ("a (_) x", of(a=np.array([1.0, np.nan])), "a is not finite"),
        ("a (_) f >0", of(a=np.zeros(2)), "a has the value 0.0, not above 0"),
        ("a (_,_) f diag>0", of(a=np.array([[1.0, 2.0], [2.0, -1.0]])), "the value -1.0 on its diagonal"),
        ("a (_) i <2", of(a=np.array([-1, 1])), "a has the value -1, below 0"),
        ("a (_) i distinct", of(a=np.array([1, 1])), "a has a value twice"),
        ("a (_) f rising", of(a=np.ones(2)), "a does not increase"),
        ("a (_) i cuts e; b (e) f", of(a=np.array([0, 3]), b=np.ones(2)), "b has shape"),
        ("a (_) i cuts e", of(a=np.array([1, 3])), "a does not divide 3 values"),
        ("a (_) i cuts e", of(a=np.array([], int)), "a does not divide"),
        ("a count", of(a=True), "a is a bool, not a whole number"),
        ("a count <=1", of(a=2), "a is 2, above 1"),
        ("a number", of(a=np.inf), "a is not finite"),
        ("a flag", of(a=1), "a is a int, not a truth value"),
        ("a items 2", of(a=[1]), "a has 1 items, not 2"),
        ("a[*].b number", of(a=[of(b=1), of(b="x")]), r"a\[1\]\.b is a str, not a number"),
        ("a[*] count", of(a=1), "a is a int, not a list"),
        ("a[*] count", of(a={(): 1}), "a has a key that is no name"),
        ("a[1] count", of(a=[1]), r"a\[1\] is missing"),
        ("a.b count", of(a={}), r"a\['b'\] is missing"),
        ("a labels", of(a=np.array(["x", "x"])), "a has a label twice"),
        ("a dict", of(a=[]), "a is a list, not a dict"),
        ("a Table/dict", of(a=[]), "a is a list, not a Table or dict"),
        ("a (_) f or no array", of(a=np.arange(2)), "a has dtype int64, not float64 and q.a is an array"),
        ("a (n) f where n > 2", of(a=np.ones(2)), "a does not have n > 2, where n=2"),
        ("a where it.b > 2", of(a=None), "a cannot be checked for"),
    ],
)
def test_what_does_not_is_refused_by_its_place(layout, value, message):
    with pytest.raises(Malformed, match=message):
        check(value, layout, "q")


@pytest.mark.parametrize("text", ["", "?", "a (n) f near 3", "a (n) f >0 extra", "(n) f"])
def test_a_rule_that_cannot_be_read_is_an_error(text):
    with pytest.raises(ValueError, match="cannot be read"):
        rule(text)
