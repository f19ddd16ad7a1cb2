"""The logger: `from npugraph_ex.core.utils import logger`."""

from torchair.core.utils import EVENT_LEVEL, logger

__all__ = ["EVENT_LEVEL", "logger"]
