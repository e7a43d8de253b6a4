"""Models that are changed, or listened to, after accelerate(fuse=True)."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_full_backward_hook

import tconv3d
from test_fusion import SRC, intercept, norm, up


def test_a_module_in_the_place_of_a_fused_norm_computes_for_itself() -> None:
    model = nn.Sequential(nn.ConvTranspose3d(4, 6, 2), nn.BatchNorm3d(6), nn.ReLU()).eval()
    model[1].running_mean.normal_()
    model[1].running_var.uniform_(0.5, 2)
    src, plain = torch.randn(2, 4, 3, 3, 3), copy.deepcopy(model)
    tconv3d.accelerate(model, fuse=True, always=True)
    torch.testing.assert_close(model(src), plain(src))
    synchronised = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(model))
    assert isinstance(synchronised[1], nn.SyncBatchNorm)
    torch.testing.assert_close(synchronised.eval()(src), plain(src))  # PyTorch 2.1 leaves it in training mode
    model[1] = plain[1] = nn.Identity()
    torch.testing.assert_close(model(src), plain(src))
    assert isinstance(tconv3d.restore(model)[2], nn.ReLU)
    torch.testing.assert_close(model(src), plain(src))


def listened_to(module: nn.Module) -> None:
    module.register_forward_hook(lambda module, inputs, output: output + inputs[0].mean())


CHANGES: dict[str, Callable[[nn.Sequential], object]] = {
    "a module in front": lambda model: model.insert(0, nn.Tanh()),
    "no module in front": lambda model: model.pop(0),
    "a module between": lambda model: model[1].insert(1, nn.Tanh()),
    "a module before the activations": lambda model: model.insert(2, nn.Tanh()),
    "a module at the end of a container": lambda model: model[1].append(nn.Tanh()),
    "a module at the end": lambda model: model.append(nn.Tanh()),
    "another norm": lambda model: model[1].__setitem__(1, nn.InstanceNorm3d(6)),
    "another activation": lambda model: model[2].__setitem__(0, nn.Sigmoid()),
    "another container": lambda model: model.__setitem__(2, nn.Sequential(nn.Sigmoid(), nn.Identity())),
    "no norm": lambda model: model[1].pop(1),
    "no activation": lambda model: model[2].pop(0),
    "a hook on the convolution": lambda model: listened_to(model[1][0]),
    "a hook on the norm": lambda model: listened_to(model[1][1]),
    "a hook on the activation": lambda model: listened_to(model[2][0]),
    "a hook on a container": lambda model: listened_to(model[1]),
    "a forward set on the convolution": lambda model: intercept(model[1][0]),
    "a forward set on the norm": lambda model: intercept(model[1][1]),
    "a forward set on the activation": lambda model: intercept(model[2][0]),
    "a hook before the norm": lambda model: model[1][1].register_forward_pre_hook(lambda module, inputs: inputs[0] - 1),
    "a hook on the whole": listened_to,
    "one part restored": lambda model: tconv3d.restore(model[1][0]),
    "another part restored": lambda model: tconv3d.restore(model[1]),
    "a third part restored": lambda model: tconv3d.restore(model[2]),
}


@pytest.mark.parametrize("normed", [False, True], ids=["activations", "batch norm"])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_model_may_be_changed_after_it_was_fused(kind: str, normed: bool) -> None:
    """Where not all stand as they stood, or somebody listens, each module computes for itself."""
    middle = norm() if normed else nn.ELU()
    plain = nn.Sequential(nn.Tanh(), nn.Sequential(up(), middle), nn.Sequential(nn.LeakyReLU(), nn.Tanh())).eval()
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True, always=True)
    for model in (plain, fused):
        CHANGES[kind](model)
    torch.testing.assert_close(fused.eval()(SRC), plain.eval()(SRC))
    torch.testing.assert_close(tconv3d.restore(fused)(SRC), plain(SRC))


def test_hooks_of_all_modules_see_what_they_see_in_pytorchs_modules() -> None:
    plain = nn.Sequential(up(), norm(), nn.ReLU()).eval()
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True, always=True)
    src = SRC.clone().requires_grad_()
    seen: list[Tensor] = []
    for listen in (register_module_forward_hook, register_module_full_backward_hook):
        hook = listen(lambda module, inputs, outputs: seen.append(outputs[0]))
        plain(src).sum().backward()
        count = len(seen)
        fused(src).sum().backward()
        hook.remove()
        assert count == 4
        torch.testing.assert_close(seen[count:], seen[:count])
        seen.clear()
    torch.testing.assert_close(fused[:1](src), plain(src))  # fused again


def test_restore_again_when_a_forward_is_taken_off() -> None:
    """What had one while `restore` was called the first time is put back by the second."""
    model = nn.Sequential(up(), norm(), nn.ReLU()).eval()
    expected, before = model(SRC), repr(model)
    tconv3d.accelerate(model, fuse=True, always=True)
    for module in model:
        intercept(module)
    tconv3d.restore(model)
    for module in model:
        del module.forward
    torch.testing.assert_close(model(SRC), expected)
    assert repr(tconv3d.restore(model)) == before
    assert not any(type(module).__module__.startswith("tconv3d") for module in model.modules())
    torch.testing.assert_close(model(SRC), expected)


def test_hooks_see_what_they_see_in_pytorchs_modules() -> None:
    plain = nn.Sequential(up(), norm(), nn.ReLU(), nn.Conv3d(6, 2, 1)).eval()
    fused = tconv3d.accelerate(copy.deepcopy(plain), fuse=True, always=True)
    seen: list[list[Tensor]] = [[], []]
    for model, record in zip((plain, fused), seen):
        for module in model:
            module.register_forward_hook(lambda _, inputs, output, to=record: to.extend((*inputs, output)))
            module.register_full_backward_hook(lambda _, inputs, outputs, to=record: to.extend(outputs))
        model(SRC.clone().requires_grad_()).sum().backward()
    assert len(seen[0]) == 12
    torch.testing.assert_close(seen[1], seen[0])
