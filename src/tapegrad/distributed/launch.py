"""``torch.distributed.launch``, the older name of torchrun."""

from __future__ import annotations

import sys

from .run import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
