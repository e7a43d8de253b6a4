"""The formulas of docs/math.md: the definition and the gradients against PyTorch, the rest against the definition.

Numbers in names are those of the page.
"""

import itertools
from math import ceil, gcd
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F


class Dimension(NamedTuple):
    src: int
    kernel: int
    stride: int
    padding: int
    output_padding: int
    dilation: int

    @property
    def dst(self):  # (3)
        reach = self.dilation * (self.kernel - 1)
        return (self.src - 1) * self.stride - 2 * self.padding + reach + self.output_padding + 1

    def connections(self):
        """Every (i, j, o) that (1) keeps."""
        for i, j in itertools.product(range(self.src), range(self.kernel)):
            o = self.stride * i - self.padding + j * self.dilation
            if 0 <= o < self.dst:
                yield i, j, o


class Phase(NamedTuple):
    count: int
    taps: list[tuple[int, int]]


def phase(dim, r):
    taps = []
    for j in range(dim.kernel):  # (6)
        offset = j * dim.dilation - dim.padding
        if offset % dim.stride == r:
            taps.append((j, -(offset // dim.stride)))
    count = ceil((dim.dst - r) / dim.stride) if r < dim.dst else 0  # (8)
    return Phase(count, taps)


def shift_and_plane(dim, tap):  # (10)
    return divmod(tap * dim.dilation - dim.padding, dim.stride)


def dimensions():
    ranges = (range(1, 6), range(1, 6), range(1, 5), range(5), range(4), range(1, 5))
    for values in itertools.product(*ranges):
        dim = Dimension(*values)
        if dim.dst >= 1 and dim.output_padding < max(dim.stride, dim.dilation):
            yield dim


DIMENSIONS = list(dimensions())


def test_enough_dimensions():
    assert len(DIMENSIONS) > 3000


def test_gather_form_4():
    for dim in DIMENSIONS:
        gathered = set()
        for o, j in itertools.product(range(dim.dst), range(dim.kernel)):
            i, rest = divmod(o + dim.padding - j * dim.dilation, dim.stride)
            if rest == 0 and 0 <= i < dim.src:
                gathered.add((i, j, o))
        assert gathered == set(dim.connections()), dim


def test_phases_make_the_same_connections_5_6():
    for dim in DIMENSIONS:
        found = []
        for r in range(dim.stride):
            part = phase(dim, r)
            for q, (j, shift) in itertools.product(range(part.count), part.taps):
                if 0 <= q + shift < dim.src:
                    found.append((q + shift, j, dim.stride * q + r))
        assert sorted(found) == sorted(dim.connections()), dim


def test_shifts_are_exact_and_bounded_6_7():
    for dim in DIMENSIONS:
        shifts = []
        for r in range(dim.stride):
            for j, shift in phase(dim, r).taps:
                assert dim.stride * shift == r + dim.padding - j * dim.dilation
                shifts.append(shift)
        assert min(shifts) == -(((dim.kernel - 1) * dim.dilation - dim.padding) // dim.stride)
        assert max(shifts) == ceil(dim.padding / dim.stride)


def test_outputs_of_all_phases_cover_dst_once_8():
    for dim in DIMENSIONS:
        outputs = []
        for r in range(dim.stride):
            part = phase(dim, r)
            assert part.count <= phase(dim, 0).count == ceil(dim.dst / dim.stride)
            outputs += [dim.stride * q + r for q in range(part.count)]
        assert sorted(outputs) == list(range(dim.dst)), dim


def test_taps_of_a_phase_are_evenly_spaced():
    for dim in DIMENSIONS:
        common = gcd(dim.stride, dim.dilation)
        tap_lists = [phase(dim, r).taps for r in range(dim.stride)]
        assert sum(map(bool, tap_lists)) == min(dim.kernel, dim.stride // common)
        for r, taps in enumerate(tap_lists):
            assert not taps or (r + dim.padding) % common == 0
            for (tap, shift), (next_tap, next_shift) in zip(taps, taps[1:]):
                assert next_tap - tap == dim.stride // common
                assert shift - next_shift == dim.dilation // common


def test_bwd_data_makes_the_same_connections_10_11():
    for dim in DIMENSIONS:
        planes = [range(plane, dim.dst, dim.stride) for plane in range(dim.stride)]
        found = []
        for i, j in itertools.product(range(dim.src), range(dim.kernel)):
            shift, plane = shift_and_plane(dim, j)
            if 0 <= i + shift < len(planes[plane]):
                found.append((i, j, planes[plane][i + shift]))
        assert sorted(found) == sorted(dim.connections()), dim


def test_the_planes_are_the_phases_12():
    for dim in DIMENSIONS:
        for r in range(dim.stride):
            part = phase(dim, r)
            assert len(range(r, dim.dst, dim.stride)) == part.count
            for j, shift in part.taps:
                assert shift_and_plane(dim, j) == (-shift, r)


def test_connections_are_counted_16():
    for dim in DIMENSIONS:
        pairs = 0
        for j in range(dim.kernel):
            shift, plane = shift_and_plane(dim, j)
            count = len(range(plane, dim.dst, dim.stride))
            pairs += max(0, min(dim.src, count - shift) - max(0, -shift))
        assert pairs == len(list(dim.connections())), dim


@pytest.mark.parametrize(
    ("dim", "phases"),
    [
        (Dimension(4, 3, 2, 1, 1, 1), [Phase(4, [(1, 0)]), Phase(4, [(0, 1), (2, 0)])]),
        (Dimension(4, 3, 2, 1, 0, 2), [Phase(5, []), Phase(4, [(0, 1), (1, 0), (2, -1)])]),
        (Dimension(3, 2, 2, 0, 0, 1), [Phase(3, [(0, 0)]), Phase(3, [(1, 0)])]),
    ],
)
def test_worked_examples(dim, phases):
    assert [phase(dim, r) for r in range(dim.stride)] == phases


def test_worked_example_of_counting():
    assert len(list(Dimension(4, 3, 2, 1, 0, 1).connections())) == 10
    assert len(list(Dimension(4, 3, 2, 1, 1, 1).connections())) == 11


class Axis(NamedTuple):
    """Output q reads plane[q + shift] along one dimension (section 7)."""

    q_count: int
    shifts: list[int]
    extent: int

    @property
    def lo(self):
        return min(self.shifts)

    @property
    def columns(self):
        return self.q_count + max(self.shifts) - min(self.shifts)

    @property
    def pitch(self):  # (19)
        left = min(max(0, -self.lo), self.columns)
        right = min(max(0, self.lo + self.columns - self.extent), self.columns)
        return max(self.columns - min(left, right), self.q_count)


def fwd_axis(dim):
    phases = [part for part in (phase(dim, r) for r in range(dim.stride)) if part.count]
    shifts = [shift for part in phases for _, shift in part.taps]
    return Axis(max(part.count for part in phases), shifts or [0], dim.src)


def bwd_data_axis(dim):
    shifts, planes = zip(*(shift_and_plane(dim, j) for j in range(dim.kernel)))
    return Axis(dim.src, list(shifts), max(len(range(plane, dim.dst, dim.stride)) for plane in planes))


def slab_of(rows, columns, values):
    """Rows and columns flattened by (18), holding values[(row, column)] and zeros."""
    slab = [0] * ((rows.columns - 1) * columns.pitch + columns.columns)
    for y, x in itertools.product(range(rows.columns), range(columns.columns)):
        value = values.get((rows.lo + y, columns.lo + x), 0)
        position = y * columns.pitch + x
        assert slab[position] == 0 or value == 0, "an overlap must be zeros in both rows"
        slab[position] = slab[position] or value
    return slab


@pytest.mark.parametrize("axis_of", [fwd_axis, bwd_data_axis])
def test_a_tap_is_one_offset_in_the_slab_18_19(axis_of):
    rows = axis_of(Dimension(3, 3, 2, 1, 0, 1))
    for dim in DIMENSIONS[::7]:
        columns = axis_of(dim)
        check_slab(rows, columns, columns.extent)
        # A plane that is shorter than the longest has the same pitch.
        check_slab(rows, columns, columns.extent - 1)


def check_slab(rows, columns, extent):
    values = {(h, w): 1 + h * extent + w for h in range(rows.extent) for w in range(extent)}
    slab = slab_of(rows, columns, values)
    lanes = set()
    for y, q in itertools.product(range(rows.q_count), range(columns.q_count)):
        lane = y * columns.pitch + q
        assert lane not in lanes
        lanes.add(lane)
        for shift_h, shift_w in itertools.product(set(rows.shifts), set(columns.shifts)):
            offset = (shift_h - min(rows.shifts)) * columns.pitch + shift_w - min(columns.shifts)
            assert slab[lane + offset] == values.get((y + shift_h, q + shift_w), 0), (columns, y, q)


def test_pitch_of_rows_that_are_read_whole():
    axes = [axis_of(dim) for dim in DIMENSIONS for axis_of in (fwd_axis, bwd_data_axis)]
    whole = [axis for axis in axes if axis.lo <= 0 and axis.lo + axis.columns >= axis.extent > 0]
    assert len(whole) > 1000
    for axis in whole:
        hi = axis.lo + axis.columns - 1
        assert axis.pitch == max(axis.extent - axis.lo, hi + 1, axis.q_count), axis


def test_worked_examples_of_the_pitch():
    assert fwd_axis(Dimension(5, 3, 1, 0, 0, 1)).pitch == 7
    assert fwd_axis(Dimension(4, 3, 2, 1, 0, 2)).pitch == 6


GROUPS, SRC_CHANNELS, DST_CHANNELS = 2, 6, 4
VOLUMES = [
    (Dimension(3, 3, 2, 1, 1, 1), Dimension(4, 3, 2, 1, 0, 2), Dimension(3, 2, 3, 0, 2, 1)),
    (Dimension(2, 4, 2, 1, 0, 1), Dimension(3, 1, 2, 0, 0, 1), Dimension(4, 3, 1, 2, 1, 2)),
]


def trilinear(volume, x, w, z):
    """T of (15): the sum over all connections, with the channels of (2) split as (group, channel in the group)."""
    x, w, z = x.unflatten(1, (GROUPS, -1)), w.unflatten(0, (GROUPS, -1)), z.unflatten(1, (GROUPS, -1))
    total = torch.zeros((), dtype=x.dtype)
    for connection in itertools.product(*(dim.connections() for dim in volume)):
        i, j, o = zip(*connection)
        total = total + torch.einsum("ngc,gck,ngk->", x[(..., *i)], w[(..., *j)], z[(..., *o)])
    return total


def fwd(volume, x, w):
    _, _, stride, padding, output_padding, dilation = zip(*volume)
    return F.conv_transpose3d(x, w, None, stride, padding, output_padding, GROUPS, dilation)


@pytest.mark.parametrize("volume", VOLUMES)
def test_definition_gradients_and_closure_2_9_13_15(volume):
    torch.manual_seed(0)

    def tensor(*shape):
        return torch.randint(-3, 4, shape).double().requires_grad_()

    x, v = (tensor(2, SRC_CHANNELS, *(dim.src for dim in volume)) for _ in range(2))
    w, u = (tensor(SRC_CHANNELS, DST_CHANNELS // GROUPS, *(dim.kernel for dim in volume)) for _ in range(2))
    z = tensor(2, DST_CHANNELS, *(dim.dst for dim in volume))

    # The gradients of T are the three operators: equations (2), (3), (9), (13).
    by_x, by_w, by_z = torch.autograd.grad(trilinear(volume, x, w, z), (x, w, z))
    assert torch.equal(by_z, fwd(volume, x, w))
    grad_src, grad_weight = torch.autograd.grad(fwd(volume, x, w), (x, w), z, create_graph=True)
    assert torch.equal(by_x, grad_src)
    assert torch.equal(by_w, grad_weight)

    # Second derivatives, section 5: B(z, w) with cotangent v, W(x, z) with cotangent u.
    z_of_b, w_of_b = torch.autograd.grad(grad_src, (z, w), v, retain_graph=True)
    assert torch.equal(z_of_b, fwd(volume, v, w))
    assert torch.equal(w_of_b, torch.autograd.grad(fwd(volume, v, w), w, z)[0])
    x_of_w, z_of_w = torch.autograd.grad(grad_weight, (x, z), u)
    assert torch.equal(x_of_w, torch.autograd.grad(fwd(volume, x, u), x, z)[0])
    assert torch.equal(z_of_w, fwd(volume, x, u))
