"""Which kernels OpenBLAS is asked to use."""

import os

import pytest

from hindsight.io.processor import choose_kernels

FLAGS = "fpu sse2 avx2 avx512f avx512dq avx512cd avx512bw avx512vl"
ABOUT = "processor\t: 0\nvendor_id\t: {}\ncpu family\t: {}\nflags\t\t: {}\n\nprocessor\t: 1\n"


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "before", "after"),
    [
        ("AuthenticAMD", "26", FLAGS, None, "SkylakeX"),
        ("AuthenticAMD", "26", FLAGS, "Haswell", "Haswell"),  # the user's choice
        ("AuthenticAMD", "25", FLAGS, None, None),  # Zen 4, which OpenBLAS knows
        ("AuthenticAMD", "26", FLAGS.replace(" avx512vl", ""), None, None),
        ("GenuineIntel", "26", FLAGS, None, None),
        ("AuthenticAMD", "", FLAGS, None, None),
    ],
)
def test_zen_5_gets_the_kernels_of_its_width(
    vendor, family, flags, before, after, tmp_path, monkeypatch
):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if before:
        monkeypatch.setenv("OPENBLAS_CORETYPE", before)
    about = tmp_path / "cpuinfo"
    about.write_text(ABOUT.format(vendor, family, flags))
    choose_kernels(about)
    assert os.environ.get("OPENBLAS_CORETYPE") == after


@pytest.mark.parametrize("text", [None, "", "Processor: 0\nFeatures: neon\n"])
def test_other_systems_are_left_alone(text, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    about = tmp_path / "cpuinfo"
    if text is not None:
        about.write_text(text)
    choose_kernels(about)
    assert "OPENBLAS_CORETYPE" not in os.environ
