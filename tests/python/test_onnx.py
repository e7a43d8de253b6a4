"""ONNX by both exporters, checked in onnxruntime. A model is exported as it is, without a call of tconv3d's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import chains
import tconv3d
from tconv3d import Epilogue

ort = pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install onnx onnxscript onnxruntime")
onnx = pytest.importorskip("onnx", reason="needs onnx: pip install onnx onnxscript onnxruntime")

EXPORTERS = ["torchscript", "dynamo"]
SETTINGS = [
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": (1, 2, 3), "groups": 2, "bias": False},
    {"dilation": (1, 2, 1), "padding": (0, 1, 2)},
]
pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves


def source() -> Tensor:
    return torch.randn(2, 4, 3, 4, 5)


def export(exporter: str, model: nn.Module, src: Tensor, path: Path, dynamic: bool = False) -> None:
    model.eval()
    if exporter == "torchscript":
        axes = {"input": {0: "n", 2: "d"}} if dynamic else None
        torch.onnx.export(model, (src,), str(path), dynamo=False, input_names=["input"], dynamic_axes=axes)
        return
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install onnx onnxscript onnxruntime")
    shapes = ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC},) if dynamic else None
    torch.onnx.export(model, (src,), str(path), dynamo=True, verbose=False, dynamic_shapes=shapes)


def run(path: Path, src: Tensor) -> list[Tensor]:
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return [torch.from_numpy(dst) for dst in session.run(None, {session.get_inputs()[0].name: src.numpy()})]


class Together(nn.Module):
    """Many modules with one input, because an export takes longer than what it exports."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        self.each = nn.ModuleList(modules)

    def forward(self, src: Tensor) -> list[Tensor]:
        return [module(src) for module in self.each]


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_every_epilogue_and_setting(exporter: str, tmp_path: Path) -> None:
    operands = chains.operands((2, 6, 7, 9, 11), torch.float32)
    models: list[nn.Module] = [tconv3d.ConvTranspose3d(4, 6, 3, **setting) for setting in SETTINGS]
    for build in chains.ALL.values():
        models.append(tconv3d.ConvTranspose3d(4, 6, 3, stride=2, epilogue=build(*operands)))
    model, src, path = Together(models), source(), tmp_path / "model.onnx"
    export(exporter, model, src, path)
    assert {node.domain for node in onnx.load(path).graph.node} <= {"", "pkg.onnxscript.torch_lib.common"}
    actual = run(path, src)
    for dst, module in zip(actual, models):
        torch.testing.assert_close(dst, module(src), rtol=1e-4, atol=1e-5, msg=lambda text, m=module: f"{m}: {text}")
    assert len(actual) == len(models)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_extents_may_differ_from_those_of_the_export(exporter: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.ConvTranspose3d(4, 6, 3, stride=2), nn.Tanh())
    tconv3d.accelerate(model)
    path, other = tmp_path / "model.onnx", torch.randn(3, 4, 6, 4, 5)
    export(exporter, model, source(), path, dynamic=True)
    torch.testing.assert_close(run(path, other)[0], model(other), rtol=1e-4, atol=1e-5)


def test_an_exported_program(tmp_path: Path) -> None:
    """It holds tconv3d's operator, which the decompositions replace."""
    pytest.importorskip("onnxscript", reason="needs onnxscript: pip install onnx onnxscript onnxruntime")
    model = tconv3d.ConvTranspose3d(4, 6, 3, epilogue=Epilogue().channel_mul(torch.randn(6)).silu())
    src, path = source(), tmp_path / "model.onnx"
    program = torch.export.export(model, (src,)).run_decompositions(tconv3d.decompositions())
    torch.onnx.export(program, (), str(path), dynamo=True, verbose=False)
    torch.testing.assert_close(run(path, src)[0], model(src), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_unet_of_monai(exporter: str, tmp_path: Path) -> None:
    nets = pytest.importorskip("monai.networks.nets", reason="needs MONAI: pip install monai")
    model = nets.UNet(spatial_dims=3, in_channels=1, out_channels=2, channels=(4, 8, 16), strides=(2, 2)).eval()
    src, path = torch.randn(1, 1, 16, 16, 8), tmp_path / "unet.onnx"
    expected = model(src)
    tconv3d.accelerate(model)
    assert sum(isinstance(module, tconv3d.ConvTranspose3d) for module in model.modules()) == 2
    export(exporter, model, src, path)
    torch.testing.assert_close(run(path, src)[0], expected, rtol=1e-3, atol=1e-5)
