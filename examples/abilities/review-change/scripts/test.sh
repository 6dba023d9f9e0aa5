#!/bin/sh
# Both streams together: the agent reads what failed.
exec 2>&1
if [ -f package.json ] && grep -q '"test"' package.json; then exec npm test --silent; fi
if [ -f Makefile ] && grep -q '^test:' Makefile; then exec make test; fi
echo 'This repository has no tests that are known here'
