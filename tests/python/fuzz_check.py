"""Runs a case of fuzz_cases.py and compares it with PyTorch's operator in double precision, or with the definition."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fuzz_cases import Case
from oracle import integers
from tconv3d import Epilogue, conv_transpose3d

_SETTINGS = ("stride", "padding", "output_padding", "groups", "dilation")


@dataclass
class Call:
    """The arguments of a case: tensors in double, and the rest."""

    tensors: dict[str, Tensor | None]
    settings: dict[str, Any]
    operands: list[Tensor]
    grad: Tensor


def check(case: Case) -> str:
    """What is wrong with the case's results; empty if nothing is."""
    os.environ.pop("TCONV3D_IMPL", None)
    os.environ.pop("TCONV3D_ISA", None)
    os.environ["TCONV3D_IMPL" if case.forced == "reference" else "TCONV3D_ISA"] = case.forced
    call = _call(case)
    torch.set_num_threads(case.threads)
    got = _outcome(lambda: _run(case, call, case.dtype, conv_transpose3d))
    torch.set_num_threads(1)
    function = _definition if case.extreme else F.conv_transpose3d
    want = _outcome(lambda: _run(case, call, torch.float64, function))
    return _difference(got, want)


def _call(case: Case) -> Call:
    problem, generator = case.problem, torch.Generator().manual_seed(case.numbers)
    tensors: dict[str, Tensor | None] = {
        "input": integers(problem.src_shape, generator),
        "weight": integers(problem.weight_shape, generator),
        "bias": integers((problem.co,), generator) if case.has_bias else None,
    }
    grad = integers(problem.dst_shape, generator)
    shapes = {"channel": (problem.co,), "residual": problem.dst_shape}
    kinds = [step.split("_")[0] for step in case.steps]
    operands = [integers(shapes[kind], generator) for kind in kinds if kind in shapes]
    if case.unbatched:
        tensors["input"], grad = integers(problem.src_shape[1:], generator), grad[0]
        operands = [operand[0] if operand.dim() == 5 else operand for operand in operands]
    call = Call(tensors, dict(zip(_SETTINGS, problem.settings)), operands, grad)
    if case.broken is not None:
        _break(call, *case.broken, generator)
    return call


def _break(call: Call, argument: str, value: Any, generator: torch.Generator) -> None:
    if argument in _SETTINGS:
        call.settings[argument] = value
        return
    name, what = argument.split("_")
    tensor = call.tensors[name]
    if tensor is None or what == "dtype":
        return
    shape = list(tensor.shape)
    if what == "rank":
        shape = (shape + [1] * 6)[:value]
    elif what == "extent":
        shape[-1] = value
    else:
        shape[1 if name == "input" else 0] = value
    call.tensors[name] = integers(tuple(shape), generator)


def _run(case: Case, call: Call, dtype: torch.dtype, function: Callable[..., Tensor]) -> list[Tensor | None]:
    """The result and the gradients that are asked for."""
    tensors = {name: _placed(case, name, tensor, dtype) for name, tensor in call.tensors.items()}
    operands = [operand.to(dtype) for operand in call.operands]
    wanted = [tensor for name, tensor in tensors.items() if tensor is not None and name in case.wants]
    # The gradient by a factor needs the preactivation, which 16 bits round.
    if "operands" in case.wants and case.dtype.itemsize >= 4:
        wanted += operands
    for tensor in wanted:
        tensor.requires_grad_()
    epilogue = _epilogue(case.steps, operands)
    if function is conv_transpose3d:
        dst = function(*tensors.values(), **call.settings, epilogue=epilogue if case.steps else None)
    else:
        dst = epilogue(function(*tensors.values(), **call.settings))
    if case.broken is not None or not wanted:
        return [dst.detach()]
    grad = _viewed(call.grad.to(dtype), case.views["grad"])
    return [dst.detach(), *torch.autograd.grad(dst, wanted, grad, allow_unused=True)]


def _placed(case: Case, name: str, tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if tensor is None:
        return None
    if case.broken is not None and case.broken[0] == f"{name}_dtype" and case.broken[1] != case.dtype:
        # The oracle computes in double: there too this tensor has another dtype than the rest.
        dtype = torch.float32 if dtype == torch.float64 and case.dtype != torch.float64 else case.broken[1]
    return _viewed(tensor.to(dtype), case.views[name])


def _viewed(tensor: Tensor, view: str) -> Tensor:
    """The same values at other places."""
    if view == "channels_last" and tensor.dim() == 5:
        return tensor.contiguous(memory_format=torch.channels_last_3d)
    if view == "permuted" and tensor.dim() > 1:
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    if view == "sliced" and tensor.dim() > 0:
        return torch.stack((tensor, tensor), dim=-1).flatten(-2)[..., ::2]
    if view == "offset":
        return torch.cat((tensor.new_zeros(1), tensor.flatten()))[1:].view(tensor.shape)
    if view == "expanded" and tensor.dim() == 5 and tensor.shape[0] > 1 and (tensor == tensor[:1]).all():
        return tensor[:1].expand_as(tensor)
    return tensor.clone()


def _epilogue(steps: tuple[str, ...], operands: list[Tensor]) -> Epilogue:
    epilogue, left = Epilogue(), iter(operands)
    for step in steps:
        method, _, constants = step.rstrip(")").partition("(")
        if method.startswith(("channel_", "residual_")):
            epilogue = getattr(epilogue, method)(next(left))
        elif method == "clamp":
            epilogue = epilogue.clamp(**{k: float(v) for k, v in (pair.split("=") for pair in constants.split(","))})
        else:
            epilogue = getattr(epilogue, method)(*(float(value) for value in constants.split(",") if value))
    return epilogue


def _definition(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    """The sum over all pairs of a voxel and a tap that meet at an output: stride · i − padding + tap · dilation = o."""
    batched = input if input.dim() == 5 else input[None]
    meets = []
    for dim, (s, p, op, d) in enumerate(zip(stride, padding, output_padding, dilation)):
        i, k = batched.shape[2 + dim], weight.shape[2 + dim]
        extent = (i - 1) * s - 2 * p + d * (k - 1) + op + 1
        table = [[[float(s * at - p + tap * d == o) for at in range(i)] for tap in range(k)] for o in range(extent)]
        meets.append(torch.tensor(table, dtype=input.dtype))
    src = batched.unflatten(1, (groups, -1))
    taps = weight.unflatten(0, (groups, -1))
    dst = torch.einsum("ngidhw,giojkl,ajd,bkh,clw->ngoabc", src, taps, *meets).flatten(1, 2)
    if bias is not None:
        dst = dst + bias.view(-1, 1, 1, 1)
    return dst if input.dim() == 5 else dst[0]


def _outcome(body: Callable[[], list[Tensor | None]]) -> list[Tensor | None] | Exception:
    try:
        return body()
    except Exception as error:
        return error


def _difference(got: Any, want: Any) -> str:
    if isinstance(want, Exception) or isinstance(got, Exception):
        return "" if type(got) is type(want) else f"got {_told(got)}, but expected {_told(want)}"
    for place, (mine, theirs) in enumerate(zip(got, want)):
        if (mine is None) != (theirs is None):
            return f"result {place}: {mine is None} and {theirs is None}"
        if mine is None:
            continue
        if mine.shape != theirs.shape:
            return f"result {place}: shape {tuple(mine.shape)}, not {tuple(theirs.shape)}"
        theirs = theirs.to(mine.dtype)
        if not torch.equal(mine, theirs):
            wrong = (mine != theirs).nonzero()
            first = tuple(wrong[0].tolist())
            return (
                f"result {place}: {len(wrong)} of {mine.numel()} differ, at {first} {mine[first]}, not {theirs[first]}"
            )
    return ""


def _told(outcome: Any) -> str:
    return f"{type(outcome).__name__}: {outcome}" if isinstance(outcome, Exception) else "results"
