"""Fourier transforms in kernels, against complex128."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from checking import compiled
from complex_check import calls_of_pytorch, check, check_program, rand

import anabranch

fft = torch.fft
ROOT = Path(__file__).resolve().parents[3]


def along(dim: int):
    """Every kind of transform along one dimension, and with other lengths."""

    def function(z, x):
        n = z.shape[dim]
        return (
            fft.fft(z, dim=dim),
            fft.ifft(z, dim=dim),
            fft.rfft(x, dim=dim),
            fft.irfft(z, n=2 * n - 1, dim=dim),
            fft.irfft(z, n=max(2 * n - 2, 1), dim=dim),
            fft.hfft(z, dim=dim),
            fft.ihfft(x, dim=dim),
            fft.fft(x, n=n + 3, dim=dim),
            fft.rfft(x, n=max(n - 2, 1), dim=dim),
        )

    return function


@pytest.mark.parametrize("size", [1, 2, 3, 8, 12, 97, 240])
def test_lengths(size) -> None:
    dtype = torch.complex128 if size in (3, 12, 97) else torch.complex64
    z = rand(5, size, dtype=dtype)
    if size > 1:
        check(along(1), z, z.real.clone())
    else:
        check(lambda z, x: (fft.fft(z), fft.rfft(x)), z, z.real.clone())
    assert not set(calls_of_pytorch()) - {"aten.view_as_real", "aten.view_as_complex"}


@pytest.mark.parametrize("size", [1009, 4096])
def test_long_rows(size) -> None:
    z = rand(3, size)
    check(lambda z, x: (fft.fft(z), fft.irfft(fft.rfft(x), n=size)), z, z.real.clone())
    check(lambda z: fft.ifft(z, dim=0), z.mT.contiguous())


@pytest.mark.parametrize("shape", [(64, 33), (7, 8, 70), (20, 2, 3, 4)])
def test_dimensions(shape) -> None:
    """Rows that run across the last dimension, which is short or long."""
    z = rand(*shape)
    check(along(0), z, z.real.clone())


NORMS = ("backward", "ortho", "forward")
SEVERAL = {
    "fft2": lambda z, x, norm: fft.fft2(z, norm=norm),
    "ifft2": lambda z, x, norm: fft.ifft2(z, s=(3, 9), norm=norm),
    "rfft2": lambda z, x, norm: fft.rfft2(x, dim=(0, 2), norm=norm),
    "irfft2": lambda z, x, norm: fft.irfft2(z, s=(4, 7), norm=norm),
    "hfft2": lambda z, x, norm: fft.hfft2(z, norm=norm),
    "fftn": lambda z, x, norm: fft.fftn(z, dim=(2, 0, 1), norm=norm),
    "rfftn": lambda z, x, norm: fft.rfftn(x, norm=norm),
    "irfftn": lambda z, x, norm: fft.irfftn(z, norm=norm),
    "ihfftn": lambda z, x, norm: fft.ihfftn(x, norm=norm),
    "shifted": lambda z, x, norm: fft.fftshift(fft.fft(fft.ifftshift(x), norm=norm)),
}


def test_several_dimensions_and_norms() -> None:
    z = rand(4, 5, 6)

    def function(z, x):
        results = []
        for place, each in enumerate(SEVERAL.values()):
            results.append(each(z, x, NORMS[place % 3]) + 0)
            results.append(each(z, x, NORMS[(place + 1) % 3]) + 0)
        return results

    check(function, z, z.real.clone())
    assert not set(calls_of_pytorch()) - {"aten.view_as_real", "aten.view_as_complex"}


def test_sizes_that_change() -> None:
    """One program for all numbers of rows and all lengths."""

    def function(x):
        spectrum = fft.rfft(x)
        return (
            fft.irfft(spectrum, n=x.shape[1]),
            spectrum.abs(),
            fft.fft(x, dim=0).abs(),
        )

    program = compiled(function, dynamic=True)
    for rows, columns in ((3, 64), (5, 61), (20, 67), (17, 134)):
        check_program(program, function, torch.randn(rows, columns))
    assert not set(calls_of_pytorch()) - {"aten.view_as_real", "aten.view_as_complex"}


def test_views_and_functions_around() -> None:
    """Kernels gather what rows are made of: frames, windows, padding."""
    window = torch.hann_window(32)

    def denoise(x):
        spectrum = torch.stft(x, 32, 8, window=window, return_complex=True)
        kept = spectrum * (spectrum.abs() > 1)
        return torch.istft(kept, 32, 8, window=window, length=x.shape[-1])

    check(denoise, torch.randn(2, 300))
    assert not calls_of_pytorch()


def test_rows_keep_to_themselves() -> None:
    """NaN in one row does not reach its neighbours."""
    x = torch.randn(20, 24)
    x[7, 3] = float("nan")
    found = compiled(lambda x: fft.rfft(x).abs())(x)
    assert found.isnan().any(1).nonzero().flatten().tolist() == [7]


def test_a_super_kernel_keeps_the_bits() -> None:
    """Tiles of other members wait for the rows that a transform's tile reads."""

    def filtered(x):
        z = fft.rfft2(x * 2)
        return fft.irfft2(z * (1 - 2j), s=x.shape[-2:]) + x

    def function(x):
        with anabranch.super_kernel("spectrum"):
            return filtered(x)

    x = torch.randn(7, 40, 34)
    wanted = compiled(filtered)(x)
    run = compiled(function)
    for _ in range(10):
        assert torch.equal(run(x), wanted)


class Filter(torch.nn.Module):
    def forward(self, x, z):
        spectrum = fft.rfft(x) * z
        return spectrum, fft.irfft(spectrum, n=x.shape[-1])


def test_a_package_without_pytorch(tmp_path) -> None:
    """The NumPy runtime takes and gives complex arrays."""
    x, z = torch.randn(5, 30), rand(5, 16)
    anabranch.export(Filter().eval(), tmp_path / "filter.anb", (x, z))
    script = (
        "import sys, numpy as np, anabranch_runtime\n"
        "data = np.load(sys.argv[1] + '/in.npz')\n"
        "run = anabranch_runtime.load(sys.argv[1] + '/filter.anb')\n"
        "spectrum, back = run(data['x'], data['z'])\n"
        "assert 'torch' not in sys.modules\n"
        "np.savez(sys.argv[1] + '/out.npz', spectrum=spectrum, back=back)\n"
    )
    np.savez(tmp_path / "in.npz", x=x.numpy(), z=z.numpy())
    alone = tmp_path / "anabranch_runtime"
    alone.mkdir()
    for source in (ROOT / "python" / "anabranch_runtime").glob("*.py"):
        (alone / source.name).symlink_to(source.resolve())
    (alone / "lib").symlink_to(ROOT / "build" / "lib")
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, cwd=tmp_path
    )
    found = np.load(tmp_path / "out.npz")
    spectrum, back = Filter()(x, z)
    torch.testing.assert_close(torch.from_numpy(found["spectrum"]), spectrum)
    torch.testing.assert_close(torch.from_numpy(found["back"]), back)


def test_gradients() -> None:
    def function(x):
        return fft.irfft(fft.rfft(x) * 2j, n=12).square().sum()

    x = torch.randn(3, 12, requires_grad=True)
    (found,) = torch.autograd.grad(compiled(function)(x), x)
    (wanted,) = torch.autograd.grad(function(x), x)
    torch.testing.assert_close(found, wanted)


class Size(torch.nn.Module):
    def forward(self, z):
        return fft.fft(z).abs()


def test_a_package_takes_contiguous_complex_inputs(tmp_path) -> None:
    """The error has the user's line and the reason."""
    why = r"aten.view_as_real at .*test_fourier.py:\d+: an input that is not contiguous"
    with pytest.raises(anabranch.CompileError, match=why):
        anabranch.export(Size().eval(), tmp_path / "size.anb", (rand(6, 5).mT,))


def test_no_points() -> None:
    """PyTorch's own error."""
    with pytest.raises(Exception, match="Invalid number of data points"):
        compiled(lambda x: fft.fft(x).abs())(torch.empty(3, 0))
