"""bench/networks.py on networks that take milliseconds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch):
    for folder in ("bench", "examples"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    import models
    import networks

    tiny = (
        networks.Network("unet", lambda: models.UNet(features=(4, 8, 8)), {"cpu": (1, 1, 8, 8, 8)}),
        networks.Network("generator", lambda: models.Generator(6, (8, 4)), {"cpu": (2, 6)}),
    )
    monkeypatch.setattr(networks, "NETWORKS", tiny)
    yield networks
    for name in ("models", "networks", "share"):
        sys.modules.pop(name)


def test_each_network_is_checked_and_timed(networks) -> None:
    rows = [row for network in networks.NETWORKS for row in networks.measure(network, "cpu", "f32", seconds=0.0)]
    assert [(row.network, row.step) for row in rows] == [
        (name, step) for name in ("unet", "generator") for step in ("inference", "training step")
    ]
    for row in rows:
        assert row.torch_ms > 0
        assert row.tconv3d_ms > 0
        assert 0 < row.share < 1


def test_outputs_that_differ_are_an_error(networks) -> None:
    one, other = (network.make() for network in networks.NETWORKS[:1] * 2)
    with pytest.raises(SystemExit, match="unet: the outputs differ by"):
        networks.check("unet", one, other, torch.randn(1, 1, 8, 8, 8), "cpu")


def test_the_models_have_the_sizes_that_they_say() -> None:
    sys.path.insert(0, str(ROOT / "examples"))
    from models import Generator, UNet

    assert UNet(2, 5, (4, 8))(torch.randn(1, 2, 4, 6, 8)).shape == (1, 5, 4, 6, 8)
    assert Generator(6, (8, 8, 4, 4))(torch.randn(2, 6)).shape == (2, 1, 64, 64, 64)
    sys.path.remove(str(ROOT / "examples"))
    sys.modules.pop("models")


def test_the_example_trains_alike_before_and_after(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import train

    try:
        difference = train.compare("cpu", steps=4)
        out = capsys.readouterr().out
        assert 0 <= difference < 1e-4
        assert [line.split()[0] for line in out.splitlines()[:2]] == ["PyTorch", "tconv3d"]
        assert "ms a step" in out
        assert "of its inference" in out
    finally:
        for name in ("train", "share"):
            sys.modules.pop(name)
