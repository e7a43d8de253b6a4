"""On a GPU: epilogues, gradients of every order, autocast, and what torch.compile needs."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import chains
import problem_file
import tconv3d
from cuda_tensors import BIAS, DST, SETTINGS, SRC, WEIGHT, forced, full_precision, real, whole
from oracle import LAYOUTS, real_inputs
from tconv3d import Epilogue, conv_transpose3d

if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no CUDA GPU", allow_module_level=True)

PROBLEMS = {problem.name: problem for problem in problem_file.read("correctness.txt")}
IMPLEMENTATIONS = tconv3d._library.cuda_machine()["implementations"]
HALVES = [torch.bfloat16, torch.float16]
FORMATS = list(LAYOUTS.values())


@pytest.fixture(autouse=True)
def in_full_precision() -> None:
    full_precision()


@pytest.fixture(params=["pytorch", "chosen", "direct"])
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What computes gradients: PyTorch's operators, kernels by their estimates, or direct in all directions."""
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", "direct" if request.param == "direct" else "")
    monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", "1" if request.param == "chosen" else "0")
    return str(request.param)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("name", chains.ALL)
def test_epilogue(name: str, implementation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused equals composed in fp64. The preactivation is exact: sums of eighths, which tf32 and bf16 hold."""
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", implementation)
    for dtype, tf32 in ((torch.float32, False), (torch.float32, True), (torch.bfloat16, False)):
        torch.backends.cudnn.allow_tf32 = tf32
        src, weight, bias = (whole(*shape, dtype=dtype) / 8 for shape in ((2, 8, 3, 4, 16), (8, 16, 3, 3, 3), (16,)))
        operands = [operand.cuda() for operand in chains.operands((2, 16, 3, 4, 16), dtype)]
        preactivation = F.conv_transpose3d(src.double(), weight.double(), bias.double(), padding=1)
        exact = chains.ALL[name](*(operand.double() for operand in operands))(preactivation)
        epilogue = chains.ALL[name](*operands)
        for layout in FORMATS:
            moved = src.contiguous(memory_format=layout)
            dst = forced(moved, weight, bias, padding=1, epilogue=epilogue)
            if dst is not None:
                rtol = torch.finfo(dtype).eps * (16 if dtype == torch.float32 else 1)
                torch.testing.assert_close(dst.double(), exact, rtol=rtol, atol=1e-5)


@pytest.mark.parametrize("name", chains.ALL)
def test_training_equals_pytorch(name: str, implementation: str) -> None:
    """Every gradient of the fused module's, in fp64, fp32 and bf16."""
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        values = [*real(SRC, WEIGHT, BIAS), *(each.cuda() for each in chains.operands(DST))]
        values = [value.to(dtype).double() for value in values]
        (grad_dst,) = (each.to(dtype) for each in real(DST))
        wide, ours = ([value.to(kind).requires_grad_() for value in values] for kind in (torch.float64, dtype))
        exact = chains.ALL[name](*wide[3:])(F.conv_transpose3d(*wide[:3], **SETTINGS))
        dst = conv_transpose3d(*ours[:3], **SETTINGS, epilogue=chains.ALL[name](*ours[3:]))
        used = [index for index in range(7) if index < 3 or _uses(name, index)]
        expected = torch.autograd.grad(exact, [wide[index] for index in used], grad_dst.double())
        gradients = torch.autograd.grad(dst, [ours[index] for index in used], grad_dst)
        # A kink may lie between the rounded and the exact preactivation: few elements, so the norm decides.
        for got, want in zip(gradients, expected):
            assert got.dtype == dtype
            error = (got.double() - want).norm() / want.norm().clamp(min=1e-30)
            assert error < 64 * torch.finfo(dtype).eps, f"{name} {dtype} {tuple(want.shape)}: {error:.1e}"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", chains.ALL)
def test_the_epilogues_backward_in_one_pass(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on the CPU, on planes of odd size and of several chunks, and with the same bits on every run."""
    monkeypatch.setenv("TCONV3D_CUDA_GRADIENTS", "1")
    for dtype, shape in itertools.product((torch.float64, torch.float32, *HALVES), (DST, (2, 3, 20, 23, 41))):
        operands = [operand.cpu() for operand in chains.operands(shape, dtype)]
        epilogue = chains.ALL[name](*operands)
        grad_dst, saved = (torch.randn(shape).to(dtype).contiguous(memory_format=LAYOUTS[layout]) for _ in range(2))
        expected, *runs = (
            torch.ops.tconv3d.epilogue_bwd.operands(
                grad_dst.to(device),
                saved.to(device),
                epilogue.text,
                [each.to(device) for each in epilogue.operands],
                True,
            )
            for device in ("cpu", "cuda", "cuda")
        )
        first, second = ([grad_preactivation, *grads, grad_bias] for grad_preactivation, grads, grad_bias in runs)
        assert all(torch.equal(one, other) for one, other in zip(first, second))
        # The CPU sums the rounded gradients here, the GPU those before their rounding: compare with the exact sums.
        exact_bias = expected[0].double().sum((0, 2, 3, 4)) if dtype == torch.float64 else None
        wanted = [expected[0], *expected[1], *([exact_bias] if exact_bias is not None else [])]
        for got, want in zip(first, wanted):
            assert got.stride() == want.stride()
            error = (got.cpu().double() - want.double()).norm() / want.double().norm().clamp(min=1e-30)
            assert error < 8 * torch.finfo(dtype).eps, f"{name} {dtype} {shape}: {error:.1e}"


def _uses(name: str, index: int) -> bool:
    marks = [torch.zeros(1) for _ in range(4)]
    return any(operand is marks[index - 3] for operand in chains.ALL[name](*marks).operands)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_take_a_weight_with_its_channels_last(layout: str, implementation: str) -> None:
    """The weight of a model that is channels_last_3d as a whole, and views of it, exact on integers."""
    geometry = ([1, 2, 2], [1, 0, 1], [0] * 3, 1, [1] * 3)
    for channels in (WEIGHT[:2], (24, 16)):
        grad_dst = whole(2, channels[1], *DST[2:]).contiguous(memory_format=LAYOUTS[layout])
        wide = whole(channels[0] + 1, channels[1], *WEIGHT[2:]).contiguous(memory_format=torch.channels_last_3d)
        for weight in (wide[:-1], wide[1:]):
            dense = weight.clone(memory_format=torch.contiguous_format)
            exact = torch.ops.tconv3d.bwd_data(grad_dst.cpu().double(), dense.cpu().double(), *geometry)
            assert torch.equal(torch.ops.tconv3d.bwd_data(grad_dst, weight, *geometry).cpu().double(), exact)


@pytest.mark.parametrize("name", ["op_dilation_only", "op_ge_stride", "asym_a", "asym_e", "groups_2", "depthwise_up"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_the_problem_file(name: str, layout: str, implementation: str) -> None:
    """An output padding of a stride or more included, which cuDNN does not take."""
    problem = PROBLEMS[name]
    inputs = real_inputs(problem)
    exact = torch.ops.aten.convolution_backward(
        inputs.grad_dst, inputs.src, inputs.weight, [problem.co],
        problem.s, problem.p, problem.d, True, problem.op, problem.g, [True, True, True],
    )  # fmt: skip
    src, weight, _, grad_dst = (each.cuda() for each in inputs.cast(torch.float32, LAYOUTS[layout]))
    grad_src = torch.ops.tconv3d.bwd_data(grad_dst, weight, *problem.settings)
    gradients = torch.ops.tconv3d.bwd_weight(src, grad_dst, problem.k, *problem.settings, True)
    for got, want in zip((grad_src, *gradients), exact):
        torch.testing.assert_close(got.cpu().double(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("chain", ["", "silu mul(2)", "leaky_relu(0.2)"])
def test_double_backward(chain: str, implementation: str) -> None:
    inputs = [each.requires_grad_() for each in real((1, 2, 2, 2, 3), (2, 2, 2, 2, 2), (2,))]

    def function(src: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.ops.tconv3d.fwd(src, weight, bias, [2] * 3, [0] * 3, [0] * 3, 1, [1] * 3, chain, [])

    # cuDNN's gradients may differ from run to run; direct's do not.
    tolerance = 0.0 if implementation == "direct" and not chain else 1e-10
    assert torch.autograd.gradcheck(function, inputs, nondet_tol=tolerance)
    assert torch.autograd.gradgradcheck(function, inputs, nondet_tol=tolerance)


def test_a_forced_implementation_computes_the_gradients_too(monkeypatch: pytest.MonkeyPatch) -> None:
    src, weight, bias = (each.requires_grad_() for each in real(SRC, WEIGHT, BIAS, dtype=torch.float32))
    dst = conv_transpose3d(src, weight, bias, **SETTINGS)
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", "none_of_them")
    for tensor in (src, weight):
        with pytest.raises(RuntimeError, match="none_of_them names no implementation"):
            torch.autograd.grad(dst.sum(), tensor, retain_graph=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("implementation", ["cells", "direct"])
def test_gradients_have_the_same_bits_on_every_run(
    implementation: str, dtype: torch.dtype, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", implementation)
    src, weight = real((4, 8, 6, 8, 40), (8, 12, 3, 3, 3), dtype=dtype)
    src = src.contiguous(memory_format=LAYOUTS[layout])
    geometry = ([2] * 3, [1] * 3, [0] * 3, 1, [1] * 3)
    grad_dst = torch.randn_like(torch.ops.tconv3d.fwd(src, weight, None, *geometry, ""))
    runs = [
        (
            torch.ops.tconv3d.bwd_data(grad_dst, weight, *geometry),
            *torch.ops.tconv3d.bwd_weight(src, grad_dst, [3] * 3, *geometry, True),
        )
        for _ in range(5)
    ]
    assert runs[0][0].stride() == src.stride()
    for run in runs[1:]:
        assert all(torch.equal(one, other) for one, other in zip(run, runs[0]))


def test_direct_takes_gradients_that_begin_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Misaligned, strided and expanded tensors."""
    monkeypatch.setenv("TCONV3D_CUDA_IMPL", "direct")
    weight, geometry = whole(*WEIGHT), ([1, 2, 2], [1, 0, 1], [0] * 3, 1, [1] * 3)
    src, big = whole(1 + 2 * 5 * 3 * 4 * 17)[1:].view(SRC), whole(*DST[:4], 2 * DST[4])
    for grad_dst in (big[..., ::2], big[..., 1 : 1 + DST[4]], big[:1, ..., : DST[4]].expand(DST)):
        dense = grad_dst.clone(memory_format=torch.contiguous_format)
        results, expected = (
            [
                torch.ops.tconv3d.bwd_data(grad, weight, *geometry),
                *torch.ops.tconv3d.bwd_weight(factors, grad, [3, 2, 3], *geometry, True),
            ]
            for grad, factors in ((grad_dst, src), (dense, src.clone()))
        )
        assert all(torch.equal(result, want) for result, want in zip(results, expected))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    module = tconv3d.ConvTranspose3d(5, 7, 3, 2, epilogue=Epilogue().relu()).cuda()
    (src,) = real(SRC, dtype=torch.float32)
    with torch.autocast("cuda", dtype=dtype):
        dst = module(src)
    assert dst.dtype == dtype
    cast = conv_transpose3d(src.to(dtype), module.weight.to(dtype), module.bias.to(dtype), 2, epilogue=module.epilogue)
    assert torch.equal(dst, cast)
    dst.float().sum().backward()
    assert module.weight.grad.dtype == torch.float32


def test_training_converges_as_pytorchs(implementation: str) -> None:
    """Ten steps of SGD from the same parameters."""
    torch.manual_seed(0)
    theirs = nn.Sequential(nn.ConvTranspose3d(4, 8, 2, 2), nn.ReLU(), nn.ConvTranspose3d(8, 3, 3, padding=1)).cuda()
    ours = nn.Sequential(nn.ConvTranspose3d(4, 8, 2, 2), nn.ReLU(), nn.ConvTranspose3d(8, 3, 3, padding=1)).cuda()
    ours.load_state_dict(theirs.state_dict())
    tconv3d.accelerate(ours)
    src, target = real((2, 4, 5, 6, 7), (2, 3, 10, 12, 14), dtype=torch.float32)
    for model in (ours, theirs):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for _ in range(10):
            optimizer.zero_grad()
            F.mse_loss(model(src), target).backward()
            optimizer.step()
    for mine, yours in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine, yours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("epilogue", ["", "relu", "channel_mul residual_add gelu"])
def test_opcheck(epilogue: str) -> None:
    src, weight, bias, channel, residual = real(SRC, WEIGHT, BIAS, BIAS, DST, dtype=torch.float32)
    operands = ([channel, residual],) if "residual" in epilogue else ()
    arguments = (src, weight, bias, [1, 2, 2], [1, 0, 1], [0, 0, 0], 1, [1, 1, 1], epilogue, *operands)
    for op in (torch.ops.tconv3d.fwd, torch.ops.tconv3d.fwd_saved):
        torch.library.opcheck(op.operands if operands else op.default, arguments)


def test_opcheck_of_the_gradients() -> None:
    src, weight, grad_dst = real(SRC, WEIGHT, DST, dtype=torch.float32)
    settings = ([1, 2, 2], [1, 0, 1], [0, 0, 0], 1, [1, 1, 1])
    torch.library.opcheck(torch.ops.tconv3d.bwd_data.default, (grad_dst, weight, *settings))
    torch.library.opcheck(torch.ops.tconv3d.bwd_weight.default, (src, grad_dst, [3, 2, 3], *settings, True))
    for epilogue in ("add(1)", "relu", "silu mul(2)"):
        torch.library.opcheck(torch.ops.tconv3d.epilogue_bwd.default, (grad_dst, grad_dst.clone(), epilogue))


def test_torch_compile() -> None:
    module = tconv3d.ConvTranspose3d(5, 7, 3, 2, epilogue=Epilogue().silu()).cuda()
    (src,) = real(SRC, dtype=torch.float32)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    results = []
    for function in (module, compiled):
        module.zero_grad()
        dst = function(src)
        dst.square().sum().backward()
        results.append([dst.detach(), module.weight.grad.clone()])
    torch.testing.assert_close(*results)
