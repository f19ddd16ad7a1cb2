"""The logger: `from torchair.core.utils import logger`."""

from .._impl.log import EVENT_LEVEL, logger

__all__ = ["EVENT_LEVEL", "logger"]
