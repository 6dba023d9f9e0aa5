#!/bin/sh
# diff.sh BASE: the change since it left its base.
set -e
from=$(git merge-base "$1" HEAD 2>/dev/null || git rev-list --max-parents=0 HEAD | tail -n 1)
git --no-pager diff --stat "$from"
git --no-pager diff "$from"
