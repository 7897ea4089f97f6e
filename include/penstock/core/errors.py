"""Errors that say what, where and the remedy, and whether trying again can help."""


class PenstockError(Exception):
    """Base of every error this project raises on purpose."""


class TerminalError(PenstockError):
    """Trying again cannot help: a person has to change something."""


class TransientError(PenstockError):
    """Trying again may help."""


class ConfigError(TerminalError):
    """A pipeline file, a setting or the machine does not allow the request."""
