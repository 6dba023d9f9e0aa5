#!/bin/sh
# upgrade.sh patch|minor|major [PACKAGE]
set -e
level=$1 package=${2-}
[ -f package.json ] || { echo 'No package.json: nothing that is known here can be upgraded'; exit 0; }
if [ "$level" = major ]; then
  [ -n "$package" ] || { echo 'Name the package for a major upgrade' >&2; exit 1; }
  npm install --no-audit --no-fund "$package@latest"
elif [ -n "$package" ]; then
  npm update --no-audit --no-fund "$package"
else
  npm update --no-audit --no-fund
fi
git --no-pager diff --unified=0 -- package.json
