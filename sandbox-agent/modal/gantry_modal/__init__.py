"""Sandboxes of Gantry at Modal. `auth`, `shapes`, `states` and `web` need nothing but Python."""
