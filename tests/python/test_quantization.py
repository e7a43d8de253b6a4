"""PyTorch's eager quantisation: it must leave tconv3d's modules correct, quantised or not."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable

import pytest
import torch
import torch.ao.quantization as tq
from torch import Tensor, nn
from torch.ao.quantization import quantize_fx

import tconv3d
from tconv3d import Epilogue

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch, about its own modules
EPILOGUES = [None, Epilogue().relu(), Epilogue().channel_mul(torch.randn(6)).hardswish()]
QCONFIG = tq.QConfig(
    activation=tq.MinMaxObserver.with_args(dtype=torch.quint8, reduce_range=True), weight=tq.default_weight_observer
)


class Net(nn.Module):
    """A transposed convolution between modules that are quantised."""

    def __init__(self, epilogue: Epilogue | None = None) -> None:
        super().__init__()
        self.quantize = tq.QuantStub()
        self.first = nn.Conv3d(4, 4, 3, padding=1)
        self.up = tconv3d.ConvTranspose3d(4, 6, 2, stride=2, epilogue=epilogue)
        self.last = nn.Conv3d(6, 3, 1)
        self.dequantize = tq.DeQuantStub()

    def forward(self, src: Tensor) -> Tensor:
        return self.dequantize(self.last(self.up(self.first(self.quantize(src)))))


def source() -> Tensor:
    return torch.randn(2, 4, 3, 4, 5)


def static(model: nn.Module, src: Tensor) -> nn.Module:
    model.qconfig = QCONFIG
    prepared = tq.prepare(model)
    prepared(src)
    return tq.convert(prepared)


def assert_near(actual: Tensor, expected: Tensor) -> None:
    """Within 5 % of the largest value: 7 bits, three times."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=0.05 * float(expected.abs().max()))


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
def test_static(epilogue: Epilogue | None) -> None:
    model, src = Net(epilogue).eval(), source()
    quantized = static(copy.deepcopy(model), src)
    assert quantized.up(quantized.first(quantized.quantize(src))).is_quantized
    assert_near(quantized(src), model(src))


def test_static_after_accelerate() -> None:
    model, src = nn.Sequential(tq.QuantStub(), nn.ConvTranspose3d(4, 6, 3), tq.DeQuantStub()).eval(), source()
    expected = model(src)
    tconv3d.accelerate(model)
    assert_near(static(model, src)(src), expected)


def test_static_keeps_hooks_and_state() -> None:
    model, src, seen = Net(EPILOGUES[-1]).eval(), source(), []
    model.up.register_forward_hook(lambda module, arguments, dst: seen.append(dst.is_quantized))
    quantized, other = static(model, src), static(Net(EPILOGUES[-1]).eval(), source())
    seen.clear()
    expected = quantized(src)
    assert seen == [True]
    assert not any("observer" in type(module).__name__.lower() for module in quantized.modules())
    other.load_state_dict(quantized.state_dict())
    assert torch.equal(other(src), expected)


def test_scripted_and_saved() -> None:
    model, src = Net(EPILOGUES[-1]).eval(), source()
    quantized, buffer = static(model, src), io.BytesIO()
    torch.jit.save(torch.jit.script(quantized), buffer)
    buffer.seek(0)
    assert torch.equal(torch.jit.load(buffer)(src), quantized(src))


def test_quantization_aware_training() -> None:
    model, src = Net(EPILOGUES[-1]).train(), source()
    model.qconfig = tq.QConfig(activation=tq.default_fake_quant, weight=tq.default_weight_fake_quant)
    prepared = tq.prepare_qat(model)
    prepared(src).square().sum().backward()
    assert prepared.up.weight.grad.abs().sum() > 0
    prepared.eval()
    assert_near(tq.convert(prepared)(src), prepared(src))


@pytest.mark.parametrize("quantize", [tq.quantize_dynamic, lambda model: static(model, source())], ids=["dynamic", ""])
def test_modules_that_nothing_asks_to_quantize(quantize: Callable[[nn.Module], nn.Module]) -> None:
    """quantize_dynamic takes no transposed convolution, of PyTorch or ours; a module may opt out of the static flow."""
    model, src = nn.Sequential(tconv3d.ConvTranspose3d(4, 6, 2, epilogue=Epilogue().silu())).eval(), source()
    model[0].qconfig = None
    assert torch.equal(quantize(copy.deepcopy(model))(src), model(src))


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
def test_fx(epilogue: Epilogue | None) -> None:
    model = nn.Sequential(nn.Conv3d(4, 4, 3), tconv3d.ConvTranspose3d(4, 6, 2, stride=2, epilogue=epilogue)).eval()
    src = source()
    prepared = quantize_fx.prepare_fx(model, tq.get_default_qconfig_mapping("fbgemm"), (src,))
    prepared(src)
    assert_near(quantize_fx.convert_fx(prepared)(src), model(src))
