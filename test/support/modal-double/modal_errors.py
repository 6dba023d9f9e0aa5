"""Of Modal's errors those that are caught or injected."""


class Error(Exception):
    pass


class AlreadyExistsError(Error):
    pass


class NotFoundError(Error):
    pass


class ResourceExhaustedError(Error):
    pass


class InternalError(Error):
    pass


class InvalidError(Error):
    pass


class ConflictError(InvalidError):
    pass


class TimeoutError(Error):
    pass
