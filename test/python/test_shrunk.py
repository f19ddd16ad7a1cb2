"""What random graphs found, shrunk: each of these once crashed, was refused or
gave something else than eager."""

from __future__ import annotations

import pytest
import torch
from checking import check


@pytest.mark.parametrize("dynamic", [False, True])
def test_rows_of_no_elements_are_collapsed(dynamic):
    def function(x):
        part = x.tensor_split(3, 1)[1]
        return torch.select_scatter(part, part[0] + 1, 0, -1)

    check(function, torch.zeros(1, 1, dtype=torch.int64), dynamic=dynamic)
