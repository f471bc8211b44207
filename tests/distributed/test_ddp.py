"""DistributedDataParallel on 2 and 4 ranks."""

from __future__ import annotations

import pytest
from cases_ddp import CASES
from ranks import passed


@pytest.mark.parametrize("ranks", [2, 4])
def test_data_parallel(ranks):
    assert passed("cases_ddp.py", ranks) == {case.__name__ for case in CASES}
