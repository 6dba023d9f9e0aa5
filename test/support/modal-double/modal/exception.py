from modal_errors import *  # noqa: F403
