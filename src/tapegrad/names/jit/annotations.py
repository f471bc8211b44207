"""Names of types for TorchScript, which is Python here."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

from tapegrad.futures import Future

from . import Attribute

__all__ = ["Any", "Attribute", "Dict", "Future", "List", "Optional", "Tuple", "Union"]

BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
