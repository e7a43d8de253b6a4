"""torch.export, AOTInductor packages and flop counts."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

import chains
import tconv3d
from block import Block
from tconv3d import Epilogue, _decompositions, _library

PAGE = Path(__file__).resolve().parents[2] / "docs/exporting.md"
#: Without tensors and with: the operator has an overload for each.
EPILOGUES = [None, Epilogue().relu().add(1.0), Epilogue().channel_mul(torch.randn(6)).silu()]


def source() -> Tensor:
    return torch.randn(2, 4, 3, 4, 5)


def targets(program: torch.export.ExportedProgram) -> set[str]:
    return {str(node.target) for node in program.graph.nodes}


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
def test_export(epilogue: Epilogue | None) -> None:
    model, src = Block(epilogue).eval(), source()
    program = torch.export.export(model, (src,))
    overload = "operands" if epilogue is not None and epilogue.operands else "default"
    for each in (program, program.run_decompositions({}), program.run_decompositions()):
        assert f"tconv3d.fwd.{overload}" in targets(each)
        torch.testing.assert_close(each.module()(src), model(src))


def test_export_with_dynamic_extents_survives_saving() -> None:
    model, src = Block(EPILOGUES[-1]).eval(), source()
    dim = torch.export.Dim
    shapes = {"src": {0: dim("n", min=1, max=64), 2: dim("d", min=2, max=64), 4: dim("w", min=2, max=64)}}
    program = torch.export.export(model, (src,), dynamic_shapes=shapes)
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    other = torch.randn(5, 4, 7, 4, 6)
    torch.testing.assert_close(torch.export.load(buffer).module()(other), model(other))


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
def test_decompositions_leave_pytorchs_operators_alone(epilogue: Epilogue | None) -> None:
    model, src = Block(epilogue).eval(), source()
    program = torch.export.export(model, (src,)).run_decompositions(tconv3d.decompositions())
    assert not any("tconv3d" in target for target in targets(program))
    torch.testing.assert_close(program.module()(src), model(src), rtol=1e-4, atol=1e-5)


def test_decompositions_read_every_epilogue() -> None:
    operands = chains.operands((2, 6, 5, 7, 9))
    for build in chains.ALL.values():
        epilogue = build(*operands)
        assert _decompositions.chain(epilogue.text, epilogue.operands) == epilogue


FRESH_PROCESS = """
import sys, torch
torch.ops.load_library(sys.argv[1])
folder = sys.argv[2]
src, expected = torch.load(f"{folder}/tensors.pt")
models = {
    "AOTInductor": torch._inductor.aoti_load_package(f"{folder}/model.pt2"),
    "TorchScript": torch.jit.load(f"{folder}/model.pt"),
    "torch.export": torch.export.load(f"{folder}/program.pt2").module(),
}
for name, model in models.items():
    torch.testing.assert_close(model(src), expected, msg=name)
assert "tconv3d" not in sys.modules
"""


@pytest.mark.filterwarnings("ignore")  # of PyTorch, about its own functions
def test_saved_models_run_where_the_operators_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """AOTInductor packages (by the documentation's code), TorchScript and exported programs, here and in a process
    that has loaded the operators without importing tconv3d."""
    model, src = nn.Sequential(Block(EPILOGUES[1]), Block(EPILOGUES[2])).eval(), source()
    model[0].last = tconv3d.ConvTranspose3d(6, 4, 2)
    program, expected = torch.export.export(model, (src,)), model(src).detach()
    block = re.search(r"<!-- run by tests/python/test_export.py -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(block[1], {"torch": torch, "program": program, "src": src, "expected": expected})
    torch.export.save(program, "program.pt2")
    torch.jit.save(torch.jit.script(model), "model.pt")
    torch.save((src, expected), "tensors.pt")
    command = [sys.executable, "-c", FRESH_PROCESS, str(_library.PATH), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def flops(module: nn.Module, src: Tensor) -> tuple[int, int]:
    """Of forward alone, and of forward and backward."""
    leaf = src.clone().requires_grad_()
    with FlopCounterMode(display=False) as forward:
        dst = module(leaf)
    with FlopCounterMode(display=False) as both:
        module(leaf).sum().backward()
    assert dst.requires_grad
    return forward.get_total_flops(), both.get_total_flops()


@pytest.mark.parametrize("epilogue", EPILOGUES, ids=str)
def test_flops_are_those_of_pytorch(epilogue: Epilogue | None) -> None:
    """Also of the groups, where PyTorch's formula for the weight's gradient counts all pairs of channels."""
    settings = [{}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "bias": False}, {"dilation": 2}]
    for setting in settings:
        theirs = nn.ConvTranspose3d(4, 6, (3, 2, 3), **setting)
        ours = tconv3d.ConvTranspose3d(4, 6, (3, 2, 3), **setting, epilogue=epilogue)
        counted = flops(ours, source())
        assert counted == flops(theirs, source())
        assert 0 < counted[0] < counted[1]


def test_flops_of_each_gradient() -> None:
    for frozen in (["weight", "bias"], ["bias"], ["weight"]):
        modules = nn.ConvTranspose3d(4, 6, 3, groups=2), tconv3d.ConvTranspose3d(4, 6, 3, groups=2)
        for module in modules:
            for name in frozen:
                getattr(module, name).requires_grad_(False)
        assert flops(modules[0], source()) == flops(modules[1], source())
