"""TorchScript: torch.jit.script and torch.jit.trace of modules and models."""

from __future__ import annotations

import io
import warnings

import pytest
import torch
from torch import Tensor, nn

import tconv3d
from tconv3d import Epilogue

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*")


def per_channel(trained: bool) -> Tensor:
    values = torch.randn(6)
    return nn.Parameter(values) if trained else values


EPILOGUES = [
    None,
    Epilogue().clamp(min=-0.5).gelu("tanh"),
    Epilogue().channel_mul(per_channel(False)).silu(),
    Epilogue().channel_add(per_channel(True)).channel_mul(per_channel(False)).channel_add(per_channel(True)),
]


def source() -> Tensor:
    return torch.randn(2, 4, 3, 4, 5)


def saved_and_loaded(scripted: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def calls_tconv3d(scripted: torch.jit.ScriptModule) -> bool:
    return "tconv3d::fwd" in str(scripted.inlined_graph)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
def test_script(epilogue: Epilogue | None, bias: bool) -> None:
    model, src = tconv3d.ConvTranspose3d(4, 6, 3, stride=2, bias=bias, epilogue=epilogue), source()
    loaded = saved_and_loaded(torch.jit.script(model))
    assert calls_tconv3d(loaded)
    assert list(loaded.state_dict()) == list(model.state_dict())
    for input in (src, src[0]):
        for size in (None, [8, 9, 11]):
            assert torch.equal(loaded(input, size), model(input, size))


@pytest.mark.parametrize("unbatched", [False, True])
def test_script_with_a_residual(unbatched: bool) -> None:
    src, residual = source()[0], torch.randn(6, 7, 9, 11)
    if not unbatched:
        src, residual = src.unsqueeze(0), residual.unsqueeze(0)
    chain = Epilogue().channel_mul(per_channel(False)).residual_add(residual).channel_add(per_channel(True)).relu()
    model = tconv3d.ConvTranspose3d(4, 6, 3, stride=2, epilogue=chain)
    assert torch.equal(torch.jit.script(model)(src), model(src))


def test_script_an_accelerated_model() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(4, 6, 3, stride=2), nn.ReLU(), nn.ConvTranspose3d(6, 2, 2, groups=2))
    src = source()
    expected = model(src)
    tconv3d.accelerate(model)
    scripted = torch.jit.script(model.eval())
    for each in (scripted, saved_and_loaded(scripted), torch.jit.freeze(scripted)):
        assert calls_tconv3d(each)
        torch.testing.assert_close(each(src), expected, rtol=1e-4, atol=1e-5)


def test_gradients_of_a_script() -> None:
    model, src = tconv3d.ConvTranspose3d(4, 6, 3, epilogue=EPILOGUES[3]), source()
    scripted = torch.jit.script(model)
    expected = torch.autograd.grad(model(src).square().sum(), list(model.parameters()))
    for _ in range(3):  # TorchScript rewrites a graph after it has seen it run
        actual = torch.autograd.grad(scripted(src).square().sum(), list(scripted.parameters()))
        torch.testing.assert_close(actual, expected)


def test_a_script_under_autocast() -> None:
    model, src = tconv3d.ConvTranspose3d(4, 6, 3, epilogue=EPILOGUES[2]), source()
    scripted = torch.jit.script(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        dst = scripted(src)
        assert dst.dtype == torch.bfloat16
        assert torch.equal(dst, model(src))


@pytest.mark.filterwarnings("ignore:Complex modules")
def test_types_that_scripts_leave_to_pytorch() -> None:
    src = source().to(torch.complex64)
    model = tconv3d.ConvTranspose3d(4, 6, 3, dtype=torch.complex64)
    assert torch.equal(torch.jit.script(model)(src), model(src))
    model.epilogue = Epilogue().mul(2.0)
    with pytest.raises(torch.jit.Error, match="epilogue takes float32"):
        torch.jit.script(model)(src)


def test_more_tensors_than_a_script_takes() -> None:
    chain = Epilogue()
    for _ in range(9):
        chain = chain.channel_add(torch.zeros(6))
    with pytest.raises(ValueError, match="at most 8 tensors, but this one has 9"):
        torch.jit.script(tconv3d.ConvTranspose3d(4, 6, 3, epilogue=chain))


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
@pytest.mark.parametrize("unbatched", [False, True])
def test_trace_without_warnings(epilogue: Epilogue | None, unbatched: bool) -> None:
    model = nn.Sequential(tconv3d.ConvTranspose3d(4, 6, 3, stride=2, epilogue=epilogue), nn.Tanh())
    src, other = source(), torch.randn(3, 4, 5, 4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*torch.jit.*")
        traced = torch.jit.trace(model, src[0] if unbatched else src)
    assert calls_tconv3d(traced)
    for each in (traced, saved_and_loaded(traced)):
        assert torch.equal(each(other[0] if unbatched else other), model(other[0] if unbatched else other))


class WithSkip(nn.Module):
    """Nine tensors come with each call."""

    def __init__(self) -> None:
        super().__init__()
        chain = Epilogue()
        for _ in range(9):
            chain = chain.residual_add()
        self.up = tconv3d.ConvTranspose3d(4, 6, 3, epilogue=chain)

    def forward(self, src: Tensor, skip: Tensor) -> Tensor:
        dst: Tensor = self.up(src, operands=[skip] * 9)
        return dst


def test_what_cannot_be_scripted_can_be_traced() -> None:
    src, skip = source(), torch.randn(2, 6, 5, 6, 7)
    folded = nn.Sequential(nn.ConvTranspose3d(4, 6, 3), nn.BatchNorm3d(6), nn.ReLU()).eval()
    tconv3d.accelerate(folded, fuse=True, always=True)
    cases: list[tuple[nn.Module, tuple[Tensor, ...]]] = [(folded, (src,)), (WithSkip(), (src, skip))]
    for model, inputs in cases:
        with pytest.raises(ValueError, match=r"torch\.jit\.script"):
            torch.jit.script(model)
        traced = torch.jit.trace(model, inputs)
        assert calls_tconv3d(traced)
        assert torch.equal(saved_and_loaded(traced)(*inputs), model(*inputs))


def test_tracing_finds_inputs_without_voxels() -> None:
    with pytest.raises(RuntimeError, match="0x4x5"):
        torch.jit.trace(tconv3d.ConvTranspose3d(4, 6, 3), torch.empty(2, 4, 0, 4, 5))
