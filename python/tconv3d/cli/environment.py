"""Environment variables for a while."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

_GRADIENTS = "TCONV3D_CUDA_GRADIENTS"


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """The variables have these values meanwhile, and afterwards those that they had."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if value is not None})


def own_gradients() -> AbstractContextManager[None]:
    """Gradients on a GPU are tconv3d's own, unless the user has said otherwise."""
    return environment({_GRADIENTS: os.environ.get(_GRADIENTS) or "1"})
