"""What a benchmark on a GPU prints."""

from __future__ import annotations

import pytest

from tconv3d.cli import results_cuda
from tconv3d.cli.machine import Rates

OURS = {"ms": 2.0, "extra_bytes": 3 << 20, "implementation": "stream"}
THEIRS = {"default": {"ms": 8.0}, "tuned ncdhw": {"failed": "no engine"}, "tuned ndhwc": {"ms": 4.0}}
RATES = {"tf32": Rates(matmul_gflops=400_000.0, copy_gbytes=4_000.0)}


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_cuda, "_machine", lambda: "Some GPU")


def summary(sides: dict[str, results_cuda.Answer]) -> str:
    row = results_cuda.Row("up", "n2 ci8 co4 4x4x4 k2 s2", "bwd_data", "tf32", "ncdhw", floor_ms=1.0, gflop=500.0,
                           mbytes=3000.0, error=0.0, agrees=True, sides=sides)  # fmt: skip
    return results_cuda.summary([row], RATES)


def test_pytorch_is_compared_where_it_was_timed() -> None:
    said = summary({**THEIRS, "tconv3d": OURS})
    assert "best/ours" in said
    assert "geometric mean, bwd_data tf32 ncdhw, best PyTorch: 2.00×" in said
    assert "(1): tconv3d 2.00×, best PyTorch 4.00×" in said


def test_tconv3d_alone_is_compared_with_the_floor() -> None:
    said = summary({"tconv3d": OURS})
    assert "(1): tconv3d 2.00×\n" in said
    assert "250.0" in said
    for absent in ("nan", "inf", "default", "best"):
        assert absent not in said
